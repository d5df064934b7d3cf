#include "trainers/optim/optimizer_options.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace mtrun::trainers {

std::vector<std::string> OptimizerNames() {
#define MT_NAME(kind, name, make) name,
  return {MT_OPTIMIZERS(MT_NAME)};
#undef MT_NAME
}

absl::StatusOr<OptimizerOptions::Kind> ParseOptimizerKind(std::string_view text) {
  const std::vector<std::string> names = OptimizerNames();
  for (size_t i = 0; i < names.size(); ++i) {
    if (names[i] == text) return static_cast<OptimizerOptions::Kind>(i);
  }
  return absl::InvalidArgumentError(absl::StrCat("unknown optimizer \"", std::string(text),
                                                 "\": give one of ", absl::StrJoin(names, ", ")));
}

}  // namespace mtrun::trainers
