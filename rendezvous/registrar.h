// The deciding thread's part of the service: sessions of agents on one side, jobs on the other. Every method
// runs on the loop's thread.
#pragma once

#include <asio/io_context.hpp>
#include <asio/steady_timer.hpp>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/posix.h"
#include "rendezvous/codec.h"
#include "rendezvous/job_table.h"
#include "rendezvous/server_stream.h"

namespace mtrun::rendezvous {

/// What is kept for an agent between two streams, so that nothing is lost or repeated. Deciding thread only.
struct ServiceSession {
  std::string job_id, node_id;
  uint64_t session_id = 0;
  std::shared_ptr<ServerStream> stream;  // null while it is away
  std::deque<wire::ServiceEvent> unacknowledged;
  size_t written = 0;  // of those, on the current stream
  uint64_t next_sequence = 1;
  uint64_t received = 0;
  bool acknowledgement_due = false, closing = false;
  bool welcome_due = false, resumed = false;

  void Acknowledge(uint64_t sequence) {
    while (!unacknowledged.empty() && unacknowledged.front().sequence() <= sequence) {
      unacknowledged.pop_front();
      if (written > 0) --written;
    }
  }
  void BeginNumbersAnew() {
    received = 0;
    next_sequence = 1;
    for (wire::ServiceEvent& event : unacknowledged) event.set_sequence(next_sequence++);
  }
};

class Registrar final : public ServerStream::Owner {
 public:
  using SessionPtr = std::shared_ptr<ServiceSession>;
  using StreamPtr = std::shared_ptr<ServerStream>;

  Registrar(asio::io_context& loop, uint64_t service_id, Duration recovery_window)
      : loop_(loop),
        service_id_(service_id),
        started_(MonotonicNow()),
        jobs_(JobMachine::Options{RandomBits(), started_, recovery_window}),
        timer_(loop) {}

  void OnMessage(const StreamPtr& stream, const wire::AgentMessage& message) override;
  void OnWritable(const StreamPtr& stream) override {
    if (stream->session) Pump(*stream->session);
  }
  void OnEnded(const StreamPtr& stream, const std::string& why) override;

  void FillStatus(wire::StatusReply& reply) const;
  /// Calls `quiet` as soon as every agent that is connected has acknowledged everything.
  void WhenQuiet(std::function<void()> quiet) {
    quiet_ = std::move(quiet);
    CheckQuiet();
  }

 private:
  using SessionKey = std::pair<std::string, std::string>;  // job id, node id

  void OnHello(const StreamPtr& stream, const wire::Hello& message, uint64_t acknowledged);
  SessionPtr FindOrMakeSession(const HelloData& hello, bool& resumed);
  void OnEvent(const StreamPtr& stream, const SessionPtr& session, const wire::AgentEvent& event);
  void OnMalformed(const SessionPtr& session, const absl::Status& status);
  void Step(const std::string& job_id, const Event& event);
  void Perform(const std::vector<JobTable::JobEffect>& effects);
  void Send(ServiceSession& session, const ServiceEvent& event);
  void Close(const SessionKey& key);
  void Drop(const StreamPtr& stream, const std::string& why);  // it broke the protocol
  void Pump(ServiceSession& session);
  bool Knows(const ServiceSession& session) const;
  void ArmTimer();
  void OnTimer();
  void CheckQuiet();

  asio::io_context& loop_;
  const uint64_t service_id_;
  const TimePoint started_;
  JobTable jobs_;
  std::map<SessionKey, SessionPtr> sessions_;
  asio::steady_timer timer_;
  std::optional<TimePoint> armed_for_;
  std::function<void()> quiet_;
};

}  // namespace mtrun::rendezvous
