#include "trainers/program/notable_file.h"

#include <cerrno>
#include <cstdio>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "base/posix.h"
#include "datasets/images/png.h"
#include "datasets/packed/contact_sheet.h"

namespace mtrun::trainers {
namespace {

nlohmann::json ListJson(const std::vector<Guess>& guesses, const datasets::PackedSplit* split) {
  nlohmann::json list = nlohmann::json::array();
  for (const Guess& guess : guesses) {
    nlohmann::json entry = {{"image", guess.image},
                            {"label", guess.label},
                            {"guess", guess.guess},
                            {"probability", guess.probability}};
    if (split != nullptr && split->has(guess.image)) {
      const auto picture = datasets::FittedImage(*split, guess.image);
      if (picture.ok()) entry["png"] = absl::Base64Escape(datasets::EncodePng(*picture));
    }
    list.push_back(std::move(entry));
  }
  return list;
}

}  // namespace

nlohmann::json NotableJson(const NotableImages& images, const datasets::PackedSplit* split) {
  return {{"mistakes", ListJson(images.mistakes(), split)},
          {"uncertain", ListJson(images.uncertain(), split)}};
}

absl::Status WriteNotable(const std::string& folder, const NotableImages& images,
                          const datasets::PackedSplit& split) {
  const std::string path = absl::StrCat(folder, "/", kNotableFile);
  if (!images.empty()) return WriteFileAtomically(path, NotableJson(images, &split).dump(1) + "\n");
  if (std::remove(path.c_str()) != 0 && errno != ENOENT)
    return ErrnoStatus(errno, absl::StrCat("remove ", path));
  return absl::OkStatus();
}

}  // namespace mtrun::trainers
