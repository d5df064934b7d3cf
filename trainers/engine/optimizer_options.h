// What an optimizer does, as settings say it.
#pragma once

#include <string_view>

#include "absl/status/statusor.h"

namespace mtrun::engine {

struct OptimizerOptions {
  enum class Kind { kSgd, kAdam, kAdamW };
  Kind kind = Kind::kSgd;
  double momentum = 0;                            // SGD
  bool nesterov = false;                          // SGD; needs momentum
  double weight_decay = 0;                        // L2 term for SGD and Adam, decoupled for AdamW
  bool decay_vectors = true;                      // false: biases and norms (dim <= 1) are spared it
  double beta1 = 0.9, beta2 = 0.999, eps = 1e-8;  // Adam, AdamW
};

/// "sgd" "adam" "adamw".
absl::StatusOr<OptimizerOptions::Kind> ParseOptimizerKind(std::string_view text);

}  // namespace mtrun::engine
