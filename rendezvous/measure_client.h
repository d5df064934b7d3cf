// How fast the way to a rendezvous service is: it takes bytes and throws them away. Blocking; any thread.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "base/clock.h"

namespace mtrun::rendezvous {

/// A service takes no more from one caller.
inline constexpr int64_t kMostMeasuredBytes = 64 << 20;

struct Throughput {
  int64_t bytes = 0;
  Duration took = Duration::zero();  // with one round trip
  bool operator==(const Throughput&) const = default;
};

/// Sends for a second, or kMostMeasuredBytes, through one connection: a way that is faster than one gRPC
/// connection with TLS shows as fast as that. kUnimplemented for a service of an older mtrun,
/// kResourceExhausted where another caller measures at the moment, kUnavailable when it does not end in time.
absl::StatusOr<Throughput> MeasureThroughput(const std::string& endpoint, bool insecure,
                                             const std::string& token);

}  // namespace mtrun::rendezvous
