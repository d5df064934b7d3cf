#include "rendezvous/client/measure_client.h"

#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <random>

#include "absl/strings/str_cat.h"
#include "base/posix.h"
#include "base/status_macros.h"
#include "rendezvous/client/transport.h"
#include "rendezvous/wire/rendezvous.grpc.pb.h"

namespace mtrun::rendezvous {
namespace {

// Starts small: over a slow connection a large part alone would take too long.
constexpr size_t kFirstPart = 64 << 10, kLargestPart = 4 << 20;
constexpr Duration kMaxSending = std::chrono::seconds(1);
constexpr std::chrono::seconds kMeasurePatience{5};

/// Returns bytes that cannot be compressed on the way.
std::string Noise(size_t size) {
  std::mt19937_64 generator(RandomBits());
  std::string noise;
  while (noise.size() < size) {
    const uint64_t bits = generator();
    noise.append(reinterpret_cast<const char*>(&bits), sizeof bits);
  }
  return noise;
}

void SendFor(Duration longest, grpc::ClientWriter<wire::MeasurePart>& writer) {
  const std::string noise = Noise(kLargestPart);
  const TimePoint began = MonotonicNow();
  wire::MeasurePart part;
  int64_t sent = 0;
  for (size_t size = kFirstPart; MonotonicNow() - began < longest; size = std::min(2 * size, kLargestPart)) {
    sent += static_cast<int64_t>(size);
    if (sent > kMaxMeasuredBytes) break;
    part.set_noise(noise.data(), size);
    if (!writer.Write(part)) break;
  }
  writer.WritesDone();
}

}  // namespace

absl::StatusOr<Throughput> MeasureThroughput(const std::string& endpoint, bool insecure,
                                             const std::string& token) {
  MT_ASSIGN_OR_RETURN(const auto channel, MakeChannel(endpoint, insecure, token));
  const auto deadline = std::chrono::system_clock::now() + kMeasurePatience;
  channel->WaitForConnected(deadline);  // the handshake is not measured
  const auto stub = wire::Rendezvous::NewStub(channel);
  grpc::ClientContext context;
  context.set_deadline(deadline);
  wire::MeasureReply reply;
  const auto writer = stub->Measure(&context, &reply);
  const TimePoint began = MonotonicNow();
  SendFor(kMaxSending, *writer);
  const grpc::Status status = writer->Finish();
  const Duration took = MonotonicNow() - began;
  switch (status.error_code()) {
    case grpc::StatusCode::OK:
      return Throughput{reply.bytes(), took};
    case grpc::StatusCode::UNIMPLEMENTED:
      return absl::UnimplementedError("the service is of an older mtrun");
    case grpc::StatusCode::RESOURCE_EXHAUSTED:
      return absl::ResourceExhaustedError(status.error_message());
    case grpc::StatusCode::DEADLINE_EXCEEDED:
      return absl::UnavailableError(absl::StrCat("not done within ", kMeasurePatience.count(), " s"));
    default:
      return absl::UnavailableError(WhyUnreachable(status));
  }
}

}  // namespace mtrun::rendezvous
