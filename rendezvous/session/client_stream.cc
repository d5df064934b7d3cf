#include "rendezvous/session/client_stream.h"

#include <utility>

namespace mtrun::rendezvous {

ClientStream::ClientStream(std::shared_ptr<Owner> owner) : owner_(std::move(owner)) {}

void ClientStream::Start(wire::Rendezvous::Stub& stub) {
  stub.async()->Session(&context_, this);
  AddHold();  // writes begin on other threads, so the call must not end before we say so
  StartRead(&in_);
  StartCall();
}

void ClientStream::Write(wire::AgentMessage message) {
  out_ = std::move(message);
  StartWrite(&out_);
}

void ClientStream::OnReadDone(bool ok) {
  if (!ok) {
    owner_->OnReadsEnded();
    RemoveHold();
    return;
  }
  owner_->OnMessage(this, in_);
  StartRead(&in_);
}

void ClientStream::OnWriteDone(bool) { owner_->OnWritten(); }

void ClientStream::OnDone(const grpc::Status& status) {
  const std::shared_ptr<Owner> owner = owner_;  // the stream may be destroyed before OnDone returns
  owner->OnDone(status);
}

}  // namespace mtrun::rendezvous
