// An agent's session with the rendezvous service: one bidirectional gRPC stream that reconnects by itself
// (back-off capped at 0.5 s, forever unless reconnect_timeout is set), and a heartbeat thread. Handlers run
// on gRPC's threads and must only post.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "rendezvous/wire/events.h"
#include "rendezvous/wire/job_settings.h"
#include "rendezvous/wire/types.h"

namespace mtrun::rendezvous {

struct SessionOptions {
  std::string endpoint;                // host:port
  std::vector<std::string> endpoints;  // instead of `endpoint`: several services, tried in order
  std::string node_id;
  JobSettings job;
  Duration connect_report_interval = std::chrono::seconds(5);  // "still cannot reach ..." while it retries
  Duration reconnect_timeout = Duration::zero();               // zero: forever
  bool insecure = false;                                       // plain text, not TLS from `token`
  std::string token;
};

class SessionClient {
 public:
  struct Handler {
    std::function<void(const ServiceEvent&)> event;
    /// Also called after each reconnect: resend what you hold.
    std::function<void(const ServiceHost& host)> connected;
    /// The session retries; `why` is for the log. `silent_for`: the service's silence when it was lost.
    std::function<void(const std::string& why, Duration silent_for)> disconnected;
    std::function<void(absl::Status)> failed;  // final: timeout, or refused credentials
    /// The service confirmed that this node is in `generation`, which runs here. Its lease counts from `from`
    /// (BootNow()). Called on gRPC's threads, at once.
    std::function<void(const Generation& generation, Duration from)> leased;
    /// The same if this node is outside of a generation and no node has continued without it since it was in
    /// `left`.
    std::function<void(const Generation& left, Duration from)> leased_outside;
  };
  static std::unique_ptr<SessionClient> Start(SessionOptions options, Handler handler);
  virtual ~SessionClient() = default;  // closes the stream; no handler runs after it returns

  /// Sends events in order; each is kept over reconnects until the service has acknowledged it. Any thread.
  virtual void Send(const AgentEvent& event) = 0;
  /// Waits (bounded) until everything sent has been acknowledged. Returns false at the deadline, or as soon
  /// as that cannot happen any more.
  virtual bool Flush(Duration patience) = 0;
  /// Notes a turn of the main loop; heartbeats carry the time since then.
  virtual void StampMainLoop() = 0;
  /// Sets the note that heartbeats carry for people who ask for the status, "" for none. Any thread.
  virtual void SetNote(const std::string& note) = 0;
  /// Sets what heartbeats say of this node's program: whether a new generation starts it again. A change is
  /// sent at once. Any thread.
  virtual void SetOrdinary(bool ordinary) = 0;
  /// Adds services that may have taken the job over: they are tried next, and the old ones too. Any thread.
  virtual void TryToo(const std::vector<std::string>& endpoints) = 0;
};

}  // namespace mtrun::rendezvous
