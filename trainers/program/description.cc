#include "trainers/program/description.h"

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/json_text.h"
#include "base/value_or.h"
#include "nlohmann/json.hpp"
#include "trainers/input/random_crop.h"

namespace mtrun::trainers {
namespace {

using nlohmann::json;

constexpr size_t kMaxClassBytes = 16 << 20;
constexpr int kLargestSide = 1 << 16;
constexpr char kPixels[] = "pixels", kPart[] = "part", kSettings[] = "settings",
               kOrientation[] = "orientation";

absl::Status Malformed(const std::string& name) {
  return absl::InvalidArgumentError(absl::StrCat("metadata \"", name, "\" is malformed"));
}

/// Reads a list of names.
absl::Status ReadClasses(const std::string& text, std::vector<std::string>& classes) {
  const absl::StatusOr<json> names = ParseJson(text, kMaxClassBytes);
  if (!names.ok() || !names->is_array()) return Malformed("classes");
  for (const json& name : *names) {
    if (!name.is_string()) return Malformed("classes");
    classes.push_back(name.get<std::string>());
  }
  return absl::OkStatus();
}

/// Reads settings such as {"normalize": "imagenet"}.
absl::Status ReadSettings(const std::string& text, std::map<std::string, std::string>& settings) {
  const absl::StatusOr<json> object = ParseJsonObject(text, kMaxClassBytes);
  if (!object.ok()) return Malformed(kSettings);
  for (const auto& [name, value] : object->items()) {
    if (!value.is_string()) return Malformed(kSettings);
    settings[name] = value.get<std::string>();
  }
  return absl::OkStatus();
}

/// Reads the fields that files of earlier releases do not have.
absl::Status ReadLater(const std::map<std::string, std::string>& metadata, Description& d) {
  if (const auto part = metadata.find(kPart); part != metadata.end()) {
    if (!absl::SimpleAtod(part->second, &d.part) || !(d.part > 0 && d.part <= 1)) return Malformed(kPart);
  }
  if (const auto rule = metadata.find(kOrientation); rule != metadata.end()) {
    d.images.orientation = rule->second;
    if (d.images.orientation != datasets::kTurnedUpright && d.images.orientation != datasets::kAsStored)
      return Malformed(kOrientation);
  }
  const auto settings = metadata.find(kSettings);
  return settings == metadata.end() ? absl::OkStatus() : ReadSettings(settings->second, d.settings);
}

}  // namespace

datasets::ImageSize Description::shape() const {
  return cut() ? datasets::ImageSize{input_size, input_size}
               : datasets::ImageSize{images.height, images.width};
}

datasets::ImageBox Description::Shown(const datasets::ImageSize& image) const {
  return cut() && part != 1 ? CentreSquare(image, part) : datasets::CentredBox(image, shape());
}

datasets::ImageSize Description::target() const {
  return whole() ? datasets::ImageSize{images.height, images.width}
                 : datasets::ImageSize{input_size, input_size};
}

std::map<std::string, std::string> ToMetadata(const Description& d) {
  std::map<std::string, std::string> metadata{
      {"program", d.program},
      {"classes", json(d.classes).dump(-1, ' ', false, json::error_handler_t::replace)},
      {"image_size", absl::StrCat(d.image_size)},
      {"input_size", absl::StrCat(d.input_size)},
      {"data_height", absl::StrCat(d.images.height)},
      {"data_width", absl::StrCat(d.images.width)},
      {"data_varies", d.images.varies ? "true" : "false"},
      {"data_store", d.images.pixels ? kPixels : "encoded"},
      {kPart, absl::StrFormat("%.17g", d.part)},
      {kSettings, json(d.settings).dump(-1, ' ', false, json::error_handler_t::replace)},
      {"pixels", kPixelRule}};
  if (!d.images.orientation.empty()) metadata[kOrientation] = d.images.orientation;
  return metadata;
}

absl::StatusOr<Description> DescriptionOf(const std::map<std::string, std::string>& metadata) {
  Description d;
  const auto text = [&](const char* name) { return ValueOr(metadata, name); };
  if (metadata.count("classes") == 0)
    return absl::NotFoundError("the file does not say what it was trained on");
  d.program = text("program");
  if (const absl::Status read = ReadClasses(text("classes"), d.classes); !read.ok()) return read;
  for (const auto& [name, side] :
       {std::pair("image_size", &d.image_size), std::pair("input_size", &d.input_size),
        std::pair("data_height", &d.images.height), std::pair("data_width", &d.images.width)}) {
    if (!absl::SimpleAtoi(text(name), side) || *side < 1 || *side > kLargestSide) return Malformed(name);
  }
  d.images.varies = text("data_varies") == "true";
  d.images.pixels = text("data_store") == kPixels;
  if (const absl::Status read = ReadLater(metadata, d); !read.ok()) return read;
  return d;
}

}  // namespace mtrun::trainers
