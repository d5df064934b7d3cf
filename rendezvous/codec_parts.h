// The values inside the wire's messages and their bounds: shared by the codec's two directions. Internal to
// the codec.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "rendezvous/rendezvous.pb.h"
#include "rendezvous/types.h"

namespace mtrun::rendezvous::codec {

inline constexpr size_t kMaxName = 256;       // ids, host names, roles
inline constexpr size_t kMaxText = 64 << 10;  // reasons, error messages
inline constexpr int kMaxNodes = 10000;
inline constexpr int kMaxWorkersPerNode = 4096;
inline constexpr int kMaxEndpoints = 16;
inline constexpr int kMaxRestarts = 1000000000;
inline constexpr uint64_t kMaxGenerationNumber = uint64_t{1} << 53;
inline constexpr int64_t kMaxNanoseconds = int64_t{366} * 24 * 3600 * 1000000000;

/// "workers is 0, 1 to 4096 are allowed".
absl::Status Range(absl::string_view field, int64_t value, int64_t low, int64_t high);
absl::Status Length(absl::string_view field, const std::string& value, size_t low, size_t high);

/// protobuf refuses to send a `string` that is not UTF-8; names come from flags and the kernel.
std::string Utf8(const std::string& text);
/// At most kMaxText bytes of a text for people.
std::string Bounded(const std::string& text);

void Encode(const Generation& generation, wire::Generation* out);
absl::StatusOr<Generation> Decode(const wire::Generation& in);
void Encode(const JobSettings& s, wire::JobSettings* out);
JobSettings Decode(const wire::JobSettings& in);  // unchecked: ValidateSettings
void Encode(const Assignment& a, wire::Assignment* out);
absl::StatusOr<Assignment> Decode(const wire::Assignment& in);
void Encode(const WorkerFailure& f, wire::WorkerFailure* out);
absl::StatusOr<WorkerFailure> Decode(const wire::WorkerFailure& in);

}  // namespace mtrun::rendezvous::codec
