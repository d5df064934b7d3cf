// Lays out gradients in flat buckets. A pure function of the parameter list, so that all members of a job
// reduce the same memory in the same order, whenever they joined.
#pragma once

#include <cstdint>
#include <vector>

namespace mtrun::trainers {

struct BucketSlot {
  int parameter = 0;   // index in the parameter list
  int64_t offset = 0;  // elements from the start of the bucket
  bool operator==(const BucketSlot&) const = default;
};

struct Bucket {
  std::vector<BucketSlot> slots;
  int64_t numel = 0;  // padding included
  bool operator==(const Bucket&) const = default;
};

/// Gradients start at multiples of this many elements: 64 bytes in float32.
inline constexpr int64_t kBucketAlignment = 16;

/// Plans buckets from the last parameter to the first, the order in which gradients appear. A bucket is
/// closed as soon as it holds `bucket_numel` elements or more. Every parameter is in exactly one bucket.
std::vector<Bucket> PlanBuckets(const std::vector<int64_t>& parameter_numels, int64_t bucket_numel);

}  // namespace mtrun::trainers
