// Measures the speed of the connection to a rendezvous service, which discards bytes. Blocking; any thread.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "base/clock.h"

namespace mtrun::rendezvous {

/// Limit of a service for one caller.
inline constexpr int64_t kMaxMeasuredBytes = 64 << 20;

struct Throughput {
  int64_t bytes = 0;
  Duration took = Duration::zero();  // including one round trip
  bool operator==(const Throughput&) const = default;
};

/// Sends for a second, or kMaxMeasuredBytes, through one connection, so the result is limited by the speed
/// of one gRPC connection with TLS. Returns kUnimplemented for a service of an older mtrun,
/// kResourceExhausted if another caller is measuring, and kUnavailable if it does not end in time.
absl::StatusOr<Throughput> MeasureThroughput(const std::string& endpoint, bool insecure,
                                             const std::string& token);

}  // namespace mtrun::rendezvous
