#include "trainers/parallel/buckets.h"

namespace mtrun::trainers {

std::vector<Bucket> PlanBuckets(const std::vector<int64_t>& parameter_numels, int64_t bucket_numel) {
  std::vector<Bucket> buckets;
  for (int i = static_cast<int>(parameter_numels.size()) - 1; i >= 0; --i) {
    if (buckets.empty() || buckets.back().numel >= bucket_numel) buckets.emplace_back();
    Bucket& bucket = buckets.back();
    bucket.slots.push_back({i, bucket.numel});
    bucket.numel += (parameter_numels[i] + kBucketAlignment - 1) / kBucketAlignment * kBucketAlignment;
  }
  return buckets;
}

}  // namespace mtrun::trainers
