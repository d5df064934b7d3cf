// One Session call of an agent, between gRPC's reactor and the session's client. The owner must start one
// write at a time.
#pragma once

#include <grpcpp/grpcpp.h>

#include <memory>

#include "rendezvous/wire/rendezvous.grpc.pb.h"

namespace mtrun::rendezvous {

class ClientStream final : public grpc::ClientBidiReactor<wire::AgentMessage, wire::ServiceMessage> {
 public:
  /// Called on gRPC's threads; OnDone is called once and last.
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
  wire::AgentMessage out_;  // owned by gRPC from Write to OnWritten
  wire::ServiceMessage in_;
};

}  // namespace mtrun::rendezvous
