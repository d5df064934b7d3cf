// Takes and discards bytes of a client that measures the speed of its connection: rendezvous/measure_client.
#pragma once

#include <grpcpp/grpcpp.h>

#include <atomic>
#include <cstdint>

#include "base/clock.h"
#include "rendezvous/wire/rendezvous.grpc.pb.h"

namespace mtrun::rendezvous {

/// Admits one measuring client at a time: two would affect each other and the service. Thread-safe.
class MeasureSlot {
 public:
  /// After this time, a client that has not ended can be replaced by the next one.
  static constexpr Duration kLongest = std::chrono::seconds(10);

  /// Returns true if a client that comes at `now` is admitted.
  bool Take(TimePoint now);
  bool IsOf(TimePoint taken) const { return taken_ == taken.time_since_epoch().count(); }
  void Give(TimePoint taken);

 private:
  std::atomic<int64_t> taken_{0};  // time of the last admission; 0: none in progress
};

/// Called by gRPC, one method at a time; destroys itself.
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
