// The settings of an optimizer. Independent of LibTorch.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "trainers/optim/optimizer_kinds.h"

namespace mtrun::trainers {

struct OptimizerOptions {
#define MT_KIND(kind, name, make) kind,
  enum class Kind { MT_OPTIMIZERS(MT_KIND) };
#undef MT_KIND
  Kind kind = Kind::kSgd;
  double momentum = 0;                            // SGD
  bool nesterov = false;                          // SGD; needs momentum
  double weight_decay = 0;                        // L2 term for SGD and Adam, decoupled for AdamW
  bool decay_vectors = true;                      // false: biases and norms (dim <= 1) are exempt
  double beta1 = 0.9, beta2 = 0.999, eps = 1e-8;  // Adam, AdamW
};

/// Returns the names on the command line: "sgd" "adam" "adamw".
std::vector<std::string> OptimizerNames();
/// Parses one of OptimizerNames.
absl::StatusOr<OptimizerOptions::Kind> ParseOptimizerKind(std::string_view text);

}  // namespace mtrun::trainers
