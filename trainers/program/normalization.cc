#include "trainers/program/normalization.h"

#include "absl/strings/str_cat.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "trainers/program/description.h"
#include "trainers/program/starting_weights.h"
#include "trainers/weights/init_from.h"
#include "trainers/weights/safetensors.h"

namespace mtrun::trainers {
namespace {

constexpr char kNormalize[] = "normalize", kAuto[] = "auto", kHalf[] = "half", kImageNet[] = "imagenet";
constexpr int64_t kImageNetClasses = 1000;

}  // namespace

absl::StatusOr<TrainedPixels> PixelsOf(const std::string& weights, const std::string& last_layer) {
  // Only safetensors files have metadata.
  if (const auto metadata = ReadMetadata(weights); metadata.ok()) {
    const absl::StatusOr<Description> about = DescriptionOf(*metadata);
    const bool says = about.ok() && about->settings.count(kNormalize) > 0;
    if (says) return TrainedPixels{about->settings.at(kNormalize), true, "the file says so"};
  }
  MT_ASSIGN_OR_RETURN(const NamedTensors tensors, LoadWeights(weights, {last_layer}));
  for (const auto& [name, tensor] : tensors) {
    if (name != last_layer || tensor.dim() == 0) continue;
    if (tensor.size(0) == kImageNetClasses)
      return TrainedPixels{kImageNet, true, "its last layer has ImageNet's 1000 classes"};
    return TrainedPixels{
        .why = absl::StrCat("its last layer has ", tensor.size(0), " classes, not ImageNet's 1000")};
  }
  return TrainedPixels{.why = "it does not say what it was trained with"};
}

absl::Status ResolveNormalize(const checkpoints::Identity& continued, bool first, Settings& settings) {
  const std::string asked = settings.Text(kNormalize);
  const auto before = continued.find(kNormalize);
  if (asked == kAuto && before != continued.end()) {
    settings.Derive(kNormalize, before->second, "as the run began");
    return absl::OkStatus();
  }
  MT_ASSIGN_OR_RETURN(const std::string weights, StartingWeights(settings));
  if (weights.empty()) {
    if (asked == kAuto) settings.Derive(kNormalize, kHalf, "auto, without --weights");
    return absl::OkStatus();
  }
  MT_ASSIGN_OR_RETURN(const TrainedPixels trained, Annotate(PixelsOf(weights, "fc.weight"), "--weights"));
  if (asked == kAuto) {
    settings.Derive(kNormalize, trained.normalize, "auto, from --weights");
    if (first)
      log::Info("images are normalised with --normalize ", trained.normalize, " for ", weights, ": ",
                trained.why);
  } else if (first && trained.known && asked != trained.normalize) {
    log::Warning("--normalize ", asked, ": ", weights, " was trained with ", trained.normalize, " (",
                 trained.why, ")");
  }
  return absl::OkStatus();
}

}  // namespace mtrun::trainers
