// One Session call of an agent: gRPC's reactor on one side, the session's client on the other. One write at a
// time: the owner sees to it.
#pragma once

#include <grpcpp/grpcpp.h>

#include <memory>

#include "rendezvous/rendezvous.grpc.pb.h"

namespace mtrun::rendezvous {

class ClientStream final : public grpc::ClientBidiReactor<wire::AgentMessage, wire::ServiceMessage> {
 public:
  /// Called on gRPC's threads; OnDone once and last.
  class Owner {
   public:
    virtual ~Owner() = default;
    virtual void OnMessage(ClientStream* stream, const wire::ServiceMessage& message) = 0;
    virtual void OnWritten() = 0;
    virtual void OnReadsEnded() = 0;  // nothing may be written any more
    virtual void OnDone(const grpc::Status& status) = 0;
  };

  explicit ClientStream(std::shared_ptr<Owner> owner);
  void Start(wire::Rendezvous::Stub& stub);
  void Write(wire::AgentMessage message);
  void Cancel() { context_.TryCancel(); }

 private:
  void OnReadDone(bool ok) override;
  void OnWriteDone(bool ok) override;
  void OnDone(const grpc::Status& status) override;

  const std::shared_ptr<Owner> owner_;
  grpc::ClientContext context_;
  wire::AgentMessage out_;  // gRPC's from Write to OnWritten
  wire::ServiceMessage in_;
};

}  // namespace mtrun::rendezvous
