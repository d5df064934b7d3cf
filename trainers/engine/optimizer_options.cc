#include "trainers/engine/optimizer_options.h"

#include <string>

#include "absl/strings/str_cat.h"

namespace mtrun::engine {

absl::StatusOr<OptimizerOptions::Kind> ParseOptimizerKind(std::string_view text) {
  if (text == "sgd") return OptimizerOptions::Kind::kSgd;
  if (text == "adam") return OptimizerOptions::Kind::kAdam;
  if (text == "adamw") return OptimizerOptions::Kind::kAdamW;
  return absl::InvalidArgumentError(
      absl::StrCat("unknown optimizer \"", std::string(text), "\": sgd, adam or adamw"));
}

}  // namespace mtrun::engine
