#include "rendezvous/client/end_watch.h"

#include <grpcpp/grpcpp.h>

#include <future>
#include <utility>

#include "rendezvous/client/transport.h"
#include "rendezvous/wire/rendezvous.grpc.pb.h"

namespace mtrun::rendezvous {

struct EndWatch::Call {
  Call(std::string where, const std::shared_ptr<grpc::Channel>& channel)
      : endpoint(std::move(where)), stub(wire::Rendezvous::NewStub(channel)) {
    request.set_until_end(true);
    stub->async()->Status(&context, &request, &reply,
                          [told = told](const grpc::Status& status) { told->set_value(status.ok()); });
  }
  ~Call() {
    context.TryCancel();
    answered.wait();
  }
  bool Waits() const { return answered.wait_for(std::chrono::seconds(0)) != std::future_status::ready; }

  const std::string endpoint;
  const std::unique_ptr<wire::Rendezvous::Stub> stub;
  grpc::ClientContext context;
  wire::StatusRequest request;
  wire::StatusReply reply;
  /// gRPC's thread may still use it after this one has read it.
  const std::shared_ptr<std::promise<bool>> told = std::make_shared<std::promise<bool>>();
  const std::shared_future<bool> answered = told->get_future().share();
};

EndWatch::EndWatch(bool insecure, std::string token) : insecure_(insecure), token_(std::move(token)) {}
EndWatch::~EndWatch() = default;

void EndWatch::Follow(const std::string& endpoint) {
  if (call_ && call_->endpoint == endpoint && call_->Waits()) return;
  if (Ended()) return;
  call_.reset();
  const auto channel = MakeChannel(endpoint, insecure_, token_);
  if (channel.ok()) call_ = std::make_unique<Call>(endpoint, *channel);
}

bool EndWatch::waits() const { return call_ && call_->Waits(); }

std::optional<ServiceStatus> EndWatch::Ended() const {
  if (!call_ || call_->Waits() || !call_->answered.get()) return std::nullopt;
  ServiceStatus status = DecodeStatus(call_->reply);
  // An older service answers at once. One that has lost its job without an end does not know how it ended.
  if (!AllEnded(status) || (status.jobs.empty() && status.ended.empty())) return std::nullopt;
  return status;
}

}  // namespace mtrun::rendezvous
