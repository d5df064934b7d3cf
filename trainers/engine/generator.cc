#include "trainers/engine/generator.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>

namespace mtrun::engine {

uint64_t ShardSeed(uint64_t seed, int64_t step, int64_t shard) {
  return SplitMix64(SplitMix64(SplitMix64(seed) ^ static_cast<uint64_t>(step)) ^
                    static_cast<uint64_t>(shard));
}

NamedStream ShardStream(uint64_t seed, int64_t step, int64_t shard, std::string_view purpose) {
  return NamedStream(ShardSeed(seed, step, shard), purpose);
}

at::Generator ShardGenerator(uint64_t seed, int64_t step, int64_t shard, std::string_view purpose,
                             at::Device device) {
  const uint64_t mixed = SplitMix64(ShardSeed(seed, step, shard) ^ Fnv1a(purpose));
  if (device.is_cpu()) return at::detail::createCPUGenerator(mixed);
  at::Generator generator = at::globalContext().defaultGenerator(device).clone();
  generator.set_current_seed(mixed);
  return generator;
}

}  // namespace mtrun::engine
