// Random numbers of one micro-batch of one step (augmentation, dropout, noise): a function of (seed, step,
// micro-batch), so that they do not depend on which worker computes the micro-batch.
#pragma once

#include <cstdint>
#include <string_view>

#include <ATen/core/Generator.h>

#include "base/splitmix.h"

namespace mtrun::trainers {

/// 64 well-mixed bits of (seed, step, micro-batch). `step` counts over the whole run.
uint64_t MicroBatchSeed(uint64_t seed, int64_t step, int64_t micro_batch);

/// A stream for values that our own loops draw; `purpose` keeps "augment" and "dropout" apart.
NamedStream MicroBatchStream(uint64_t seed, int64_t step, int64_t micro_batch, std::string_view purpose);

/// A generator for at:: functions on `device`, seeded from MicroBatchSeed and `purpose`.
at::Generator MicroBatchGenerator(uint64_t seed, int64_t step, int64_t micro_batch, std::string_view purpose,
                                  at::Device device = at::Device(at::kCPU));

}  // namespace mtrun::trainers
