#include "rendezvous/service/server_stream.h"

#include <grpcpp/support/proto_buffer_reader.h>

#include <asio/post.hpp>
#include <utility>

namespace mtrun::rendezvous {
namespace {

/// Consumes `bytes`.
bool Parse(grpc::ByteBuffer* bytes, wire::AgentMessage* message) {
  grpc::ProtoBufferReader reader(bytes);
  const bool good = reader.status().ok() && message->ParseFromZeroCopyStream(&reader);
  bytes->Clear();
  return good;
}

}  // namespace

ServerStream* ServerStream::Make(asio::io_context& loop, asio::io_context& calls, Owner& owner,
                                 grpc::CallbackServerContext& context) {
  std::shared_ptr<ServerStream> stream(new ServerStream(loop, calls, owner, context));
  stream->self_ = stream;
  asio::post(loop, [stream] { stream->owner_.OnOpened(stream); });
  stream->StartRead(&stream->in_);
  return stream.get();
}

void ServerStream::Write(grpc::ByteBuffer message) {
  out_.Swap(&message);
  writing_ = Writing::kWriting;
  write_due_ = hears_;
  if (hears_) return;
  asio::post(calls_, [self = shared_from_this()] { self->StartWrite(&self->out_); });
}

void ServerStream::Close(grpc::Status status) {
  ended_ = true;
  if (closing_) return;
  closing_ = true;
  status_ = std::move(status);
  FinishIfClosing();
}

void ServerStream::Abort(grpc::Status status) {
  if (!IsIdle()) context_.TryCancel();
  Close(std::move(status));
}

void ServerStream::FinishIfClosing() {
  if (!closing_ || finished_ || !IsIdle()) return;
  finished_ = true;
  asio::post(calls_, [self = shared_from_this()] { self->Finish(self->status_); });
}

void ServerStream::End(NodeLost::How how) {
  if (!ended_) {
    ended_ = true;
    owner_.OnEnded(shared_from_this(), {.how = how});
  }
  Close(grpc::Status::OK);
}

void ServerStream::OnReadDone(bool ok) {
  const auto message = std::make_shared<wire::AgentMessage>();
  const bool good = ok && Parse(&in_, message.get());
  const auto hear = [self = shared_from_this(), good, message] {
    if (!good) return self->End(NodeLost::How::kStreamEnded);
    if (!self->closing_) self->OnMessage(*message);
  };
  // The next message is read after this one, so the stream's order is kept.
  if (good && message->has_heartbeat()) return owner_.Later(hear);
  asio::post(loop_, hear);
}

void ServerStream::OnMessage(const wire::AgentMessage& message) {
  const std::shared_ptr<ServerStream> self = shared_from_this();
  hears_ = true;
  owner_.OnMessage(self, message);
  hears_ = false;
  // Reads on only now, so that an agent that floods is slowed down instead of filling memory. Combined with
  // the answer, which nearly every heartbeat has: the other thread is woken once.
  const bool writes = std::exchange(write_due_, false), reads = !closing_;
  if (!writes && !reads) return;
  asio::post(calls_, [self, writes, reads] {
    if (writes) self->StartWrite(&self->out_);
    if (reads) self->StartRead(&self->in_);
  });
}

bool ServerStream::IsIdle() {
  Writing now = Writing::kWriting;
  return !writing_.compare_exchange_strong(now, Writing::kAwaited) && now == Writing::kIdle;
}

void ServerStream::OnWriteDone(bool ok) {
  // The written message stays in out_ until the next write; from here on out_ belongs to the deciding thread.
  Writing now = Writing::kWriting;
  if (ok && writing_.compare_exchange_strong(now, Writing::kIdle)) return;
  asio::post(loop_, [self = shared_from_this(), ok] {
    self->writing_ = Writing::kIdle;
    self->out_.Clear();
    if (!ok) self->End(NodeLost::How::kConnectionBroke);
    if (self->closing_) return self->FinishIfClosing();
    self->owner_.OnWritable(self);
  });
}

void ServerStream::OnCancel() {
  asio::post(loop_, [self = shared_from_this()] { self->End(NodeLost::How::kConnectionBroke); });
}

void ServerStream::OnDone() { self_.reset(); }

}  // namespace mtrun::rendezvous
