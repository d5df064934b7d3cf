#include "trainers/input/micro_batch_rng.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>

namespace mtrun::trainers {

uint64_t MicroBatchSeed(uint64_t seed, int64_t step, int64_t micro_batch) {
  return SplitMix64(SplitMix64(SplitMix64(seed) ^ static_cast<uint64_t>(step)) ^
                    static_cast<uint64_t>(micro_batch));
}

NamedStream MicroBatchStream(uint64_t seed, int64_t step, int64_t micro_batch, std::string_view purpose) {
  return NamedStream(MicroBatchSeed(seed, step, micro_batch), purpose);
}

at::Generator MicroBatchGenerator(uint64_t seed, int64_t step, int64_t micro_batch, std::string_view purpose,
                                  at::Device device) {
  const uint64_t mixed = SplitMix64(MicroBatchSeed(seed, step, micro_batch) ^ Fnv1a(purpose));
  if (device.is_cpu()) return at::detail::createCPUGenerator(mixed);
  at::Generator generator = at::globalContext().defaultGenerator(device).clone();
  generator.set_current_seed(mixed);
  return generator;
}

}  // namespace mtrun::trainers
