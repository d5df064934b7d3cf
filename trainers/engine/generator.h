// Random numbers of one shard of one step (augmentation, dropout, noise): a function of (seed, step, shard),
// so that they do not depend on which worker computes the shard.
#pragma once

#include <cstdint>
#include <string_view>

#include <ATen/core/Generator.h>

#include "base/splitmix.h"

namespace mtrun::engine {

/// 64 well-mixed bits of (seed, step, shard). `step` counts over the whole run.
uint64_t ShardSeed(uint64_t seed, int64_t step, int64_t shard);

/// A stream for values that our own loops draw; `purpose` keeps "augment" and "dropout" apart.
NamedStream ShardStream(uint64_t seed, int64_t step, int64_t shard, std::string_view purpose);

/// A generator for at:: functions on `device`, seeded from ShardSeed and `purpose`.
at::Generator ShardGenerator(uint64_t seed, int64_t step, int64_t shard, std::string_view purpose,
                             at::Device device = at::Device(at::kCPU));

}  // namespace mtrun::engine
