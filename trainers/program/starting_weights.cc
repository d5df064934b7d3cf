#include "trainers/program/starting_weights.h"

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/published_weights.h"
#include "base/status_macros.h"
#include "base/worker_env.h"

namespace mtrun::trainers {

int DepthOf(const Settings& settings) {
  int depth = 18;
  if (settings.Has("depth")) static_cast<void>(absl::SimpleAtoi(settings.Text("depth"), &depth));
  return depth;
}

absl::StatusOr<std::string> StartingWeights(const Settings& settings) {
  std::string given = settings.Text("weights");
  if (given != kImageNetWeights) return given;
  MT_ASSIGN_OR_RETURN(const PublishedWeights weights,
                      FindPublished(absl::StrCat("resnet", DepthOf(settings))));
  return Annotate(FindOnDisk(weights, CurrentEnvironment()), absl::StrCat("--weights ", kImageNetWeights));
}

}  // namespace mtrun::trainers
