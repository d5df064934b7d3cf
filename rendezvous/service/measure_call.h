// Takes what somebody sends to learn how fast the way here is, and throws it away: rendezvous/measure_client.
#pragma once

#include <grpcpp/grpcpp.h>

#include <atomic>
#include <cstdint>

#include "base/clock.h"
#include "rendezvous/rendezvous.grpc.pb.h"

namespace mtrun::rendezvous {

/// One measures at a time: two would measure each other, and the service has other work. Thread-safe.
class MeasureSlot {
 public:
  /// After so long a caller that has not ended may be followed by the next one.
  static constexpr Duration kLongest = std::chrono::seconds(10);

  /// Whether the caller that comes at `now` has it.
  bool Take(TimePoint now);
  bool IsOf(TimePoint taken) const { return taken_ == taken.time_since_epoch().count(); }
  void Give(TimePoint taken);

 private:
  std::atomic<int64_t> taken_{0};  // when; 0: nobody has it
};

/// gRPC calls it, one method at a time; it ends itself.
class MeasureCall final : public grpc::ServerReadReactor<wire::MeasurePart> {
 public:
  /// `slot` must outlive it.
  static MeasureCall* Make(MeasureSlot& slot, wire::MeasureReply& reply) {
    return new MeasureCall(slot, reply);
  }

  void OnReadDone(bool ok) override;
  void OnDone() override;

 private:
  MeasureCall(MeasureSlot& slot, wire::MeasureReply& reply);
  void End(const grpc::Status& status);

  MeasureSlot& slot_;
  wire::MeasureReply& reply_;
  const TimePoint begun_;
  int64_t bytes_ = 0;
  wire::MeasurePart part_;
};

}  // namespace mtrun::rendezvous
