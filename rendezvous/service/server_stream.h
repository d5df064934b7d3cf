// One agent's Session call in the service, between gRPC's reactor and the service's deciding thread (that of
// `loop`). gRPC's callbacks only post, or do nothing if a write has succeeded and its end is not awaited; all
// else is called on the deciding thread. Operations start, in order, on the thread of `calls`: gRPC sends
// within the call that starts a write, which is most of the cost of a heartbeat. Keeps itself alive until
// gRPC is done with it. Invariants: one read and one write at a time; nothing is started after Finish; Finish
// is called exactly once.
#pragma once

#include <grpcpp/grpcpp.h>

#include <asio/io_context.hpp>
#include <atomic>
#include <functional>
#include <memory>

#include "rendezvous/wire/cause.h"
#include "rendezvous/wire/rendezvous.pb.h"

namespace mtrun::rendezvous {

struct ServiceSession;

class ServerStream final : public grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>,
                           public std::enable_shared_from_this<ServerStream> {
 public:
  /// Handles the stream; called on the deciding thread unless noted otherwise.
  class Owner {
   public:
    virtual ~Owner() = default;
    virtual void OnOpened(const std::shared_ptr<ServerStream>& stream) = 0;  // called first
    virtual void OnMessage(const std::shared_ptr<ServerStream>& stream,
                           const wire::AgentMessage& message) = 0;
    /// Called after `writable` returned false, unless the stream has ended since.
    virtual void OnWritable(const std::shared_ptr<ServerStream>& stream) = 0;
    virtual void OnEnded(const std::shared_ptr<ServerStream>& stream, const NodeLost& why) = 0;  // once
    /// Runs `hear`, for a heartbeat, on the deciding thread, without having to wake it at once. Any thread.
    virtual void Later(std::function<void()> hear) = 0;
  };

  /// Starts reading. gRPC owns the returned object, which is valid until OnDone.
  static ServerStream* Make(asio::io_context& loop, asio::io_context& calls, Owner& owner,
                            grpc::CallbackServerContext& context);

  /// If it returns false, the owner is notified later by OnWritable.
  bool writable() { return !closing_ && IsIdle(); }
  /// `message`: an encoded wire::ServiceMessage.
  void Write(grpc::ByteBuffer message);
  /// Ends the call after the write in progress. The owner is not notified any more.
  void Close(grpc::Status status);
  /// The same without waiting for a write that the agent does not take.
  void Abort(grpc::Status status);

  // Deciding thread only.
  std::shared_ptr<ServiceSession> session;
  bool said_hello = false;

 private:
  ServerStream(asio::io_context& loop, asio::io_context& calls, Owner& owner,
               grpc::CallbackServerContext& context)
      : loop_(loop), calls_(calls), owner_(owner), context_(context) {}

  // Called on gRPC's threads.
  void OnReadDone(bool ok) override;
  void OnWriteDone(bool ok) override;
  void OnCancel() override;
  void OnDone() override;

  void OnMessage(const wire::AgentMessage& message);
  void End(NodeLost::How how);
  void FinishIfClosing();
  /// Returns true if no write is in progress. Otherwise the deciding thread is notified when it ends.
  bool IsIdle();

  asio::io_context &loop_, &calls_;
  Owner& owner_;
  grpc::CallbackServerContext& context_;  // lives until OnDone
  std::shared_ptr<ServerStream> self_;    // released by OnDone
  // Deciding thread only (`calls` and gRPC read out_ and status_ and write in_ between start and callback).
  grpc::ByteBuffer in_, out_;
  bool closing_ = false, finished_ = false, ended_ = false;
  bool hears_ = false, write_due_ = false;  // the owner is being notified; its writes start afterwards
  grpc::Status status_;
  // State of the write in progress. The deciding thread starts a write and may begin to await its end. If it
  // does not, as after an answered heartbeat, gRPC's thread sets it to idle without waking the deciding
  // thread.
  enum class Writing { kIdle, kWriting, kAwaited };
  std::atomic<Writing> writing_ = Writing::kIdle;
};

}  // namespace mtrun::rendezvous
