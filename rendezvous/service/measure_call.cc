#include "rendezvous/service/measure_call.h"

#include "rendezvous/client/measure_client.h"

namespace mtrun::rendezvous {
namespace {

grpc::Status Busy() {
  return {grpc::StatusCode::RESOURCE_EXHAUSTED, "another client is measuring: try again"};
}

}  // namespace

bool MeasureSlot::Take(TimePoint now) {
  int64_t taken = taken_;
  const int64_t ns = now.time_since_epoch().count();
  if (taken != 0 && ns - taken < kLongest.count()) return false;
  return taken_.compare_exchange_strong(taken, ns);
}

void MeasureSlot::Give(TimePoint taken) {
  int64_t ns = taken.time_since_epoch().count();
  taken_.compare_exchange_strong(ns, 0);
}

MeasureCall::MeasureCall(MeasureSlot& slot, wire::MeasureReply& reply)
    : slot_(slot), reply_(reply), begun_(MonotonicNow()) {
  if (slot_.Take(begun_)) {
    StartRead(&part_);
  } else {
    Finish(Busy());
  }
}

/// A client that has its answer may come again.
void MeasureCall::End(const grpc::Status& status) {
  slot_.Give(begun_);
  Finish(status);
}

void MeasureCall::OnReadDone(bool ok) {
  if (!ok) {
    reply_.set_bytes(bytes_);
    return End(grpc::Status::OK);
  }
  bytes_ += static_cast<int64_t>(part_.noise().size());
  if (bytes_ > kMaxMeasuredBytes)
    return End({grpc::StatusCode::OUT_OF_RANGE, "more bytes than a measurement needs"});
  if (!slot_.IsOf(begun_)) return End(Busy());
  StartRead(&part_);
}

void MeasureCall::OnDone() {
  slot_.Give(begun_);  // for a cancelled call
  delete this;
}

}  // namespace mtrun::rendezvous
