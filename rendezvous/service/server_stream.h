// One agent's Session call inside the service: gRPC's reactor on one side, the service's deciding thread on
// the other. gRPC's callbacks only post, and not even that where a write has ended well and nobody awaits it;
// everything else is called on the deciding thread (that of `loop`).
// Operations start on a thread of their own, that of `calls`, in order: gRPC begins to send within the call
// that starts a write, and of a heartbeat that is the greater part. Keeps itself alive until gRPC is done
// with it. Invariants: one read and one write at a time; nothing is started once Finish was called; Finish is
// called exactly once.
#pragma once

#include <grpcpp/grpcpp.h>

#include <asio/io_context.hpp>
#include <atomic>
#include <functional>
#include <memory>
#include <string>

#include "rendezvous/rendezvous.pb.h"

namespace mtrun::rendezvous {

struct ServiceSession;

class ServerStream final : public grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>,
                           public std::enable_shared_from_this<ServerStream> {
 public:
  /// Who decides; called on its own thread but where it says otherwise.
  class Owner {
   public:
    virtual ~Owner() = default;
    virtual void OnOpened(const std::shared_ptr<ServerStream>& stream) = 0;  // first of all
    virtual void OnMessage(const std::shared_ptr<ServerStream>& stream,
                           const wire::AgentMessage& message) = 0;
    /// After `writable` said no, unless the stream has ended since.
    virtual void OnWritable(const std::shared_ptr<ServerStream>& stream) = 0;
    virtual void OnEnded(const std::shared_ptr<ServerStream>& stream, const std::string& why) = 0;  // once
    /// Any thread: `hear` runs on the deciding one, which need not be woken for it at once. A heartbeat.
    virtual void Later(std::function<void()> hear) = 0;
  };

  /// Starts reading. The returned pointer is gRPC's; it stays valid until OnDone.
  static ServerStream* Make(asio::io_context& loop, asio::io_context& calls, Owner& owner,
                            grpc::CallbackServerContext& context);

  /// If not now, the owner hears when.
  bool writable() { return !closing_ && IsIdle(); }
  /// A wire::ServiceMessage, encoded.
  void Write(grpc::ByteBuffer message);
  /// Ends the call after the write in progress. The owner hears nothing more.
  void Close(grpc::Status status);
  /// The same without waiting for a write that an agent does not take.
  void Abort(grpc::Status status);

  // Deciding thread only.
  std::shared_ptr<ServiceSession> session;
  bool said_hello = false;

 private:
  ServerStream(asio::io_context& loop, asio::io_context& calls, Owner& owner,
               grpc::CallbackServerContext& context)
      : loop_(loop), calls_(calls), owner_(owner), context_(context) {}

  // gRPC's threads.
  void OnReadDone(bool ok) override;
  void OnWriteDone(bool ok) override;
  void OnCancel() override;
  void OnDone() override;

  void Hear(const wire::AgentMessage& message);
  void End(const std::string& why);
  void FinishIfClosing();
  /// No write is in progress. If one is, the deciding thread is to hear of its end.
  bool IsIdle();

  asio::io_context &loop_, &calls_;
  Owner& owner_;
  grpc::CallbackServerContext& context_;  // lives until OnDone
  std::shared_ptr<ServerStream> self_;    // released by OnDone
  // Deciding thread only (`calls` and gRPC read out_ and status_ and write in_ between start and callback).
  grpc::ByteBuffer in_, out_;
  bool closing_ = false, finished_ = false, ended_ = false;
  bool hears_ = false, write_due_ = false;  // the owner is told; what it writes meanwhile begins behind that
  grpc::Status status_;
  // Of the write in progress. The deciding thread begins one and may come to await its end; gRPC's makes it
  // idle where nobody does, and of an answered heartbeat nobody does: the deciding thread is not woken for
  // it.
  enum class Writing { kIdle, kWriting, kAwaited };
  std::atomic<Writing> writing_ = Writing::kIdle;
};

}  // namespace mtrun::rendezvous
