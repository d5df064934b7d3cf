// An agent's session with the rendezvous service: one bidirectional gRPC stream that reconnects by itself
// (back-off capped at 0.5 s, for ever unless reconnect_timeout is set) and a heartbeat thread. Handlers run
// on gRPC's threads and must only post.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/clock.h"
#include "rendezvous/events.h"
#include "rendezvous/job_settings.h"
#include "rendezvous/types.h"

namespace mtrun::rendezvous {

struct SessionOptions {
  std::string endpoint;  // host:port
  std::vector<std::string>
      endpoints;  // instead of `endpoint`: several services, tried in turn from the first
  std::string node_id;
  JobSettings job;
  Duration connect_report_interval = std::chrono::seconds(5);  // "still cannot reach ..." while it retries
  Duration reconnect_timeout = Duration::zero();               // zero: for ever
  bool insecure = false;                                       // plain text instead of TLS from `token`
  std::string token;
};

class SessionClient {
 public:
  struct Handler {
    std::function<void(const ServiceEvent&)> event;
    /// Also after each reconnect: send what you hold again.
    std::function<void(const ServiceHost& host)> connected;
    /// Retrying; the text is for the log. The service had said nothing for `silent_for` when it was lost.
    std::function<void(const std::string& why, Duration silent_for)> disconnected;
    std::function<void(absl::Status)> failed;  // final: timeout, or refused credentials
    /// The service has heard this node in `generation`, which runs here: its lease counts from then
    /// (BootNow()). On gRPC's threads, at once.
    std::function<void(const Generation& generation, Duration from)> leased;
    /// The same where this node waits outside of a generation and nobody has gone on without it since it was
    /// in `left`.
    std::function<void(const Generation& left, Duration from)> leased_outside;
  };
  static std::unique_ptr<SessionClient> Start(SessionOptions options, Handler handler);
  virtual ~SessionClient() = default;  // closes the stream; no handler runs after it returns

  /// Any thread. In order; kept over a reconnect until the service has acknowledged it.
  virtual void Send(const AgentEvent& event) = 0;
  /// Waits (bounded) until everything sent has been acknowledged; false at the deadline, or as soon as that
  /// can never be.
  virtual bool Flush(Duration patience) = 0;
  /// The main loop stamps its turns here; heartbeats carry the stamp's age.
  virtual void StampMainLoop() = 0;
  /// What heartbeats show to people who ask for the status from now on, "" for nothing. Any thread.
  virtual void SetNote(const std::string& note) = 0;
  /// Other services may have taken the job over: they are tried next, and the old ones too. Any thread.
  virtual void TryToo(const std::vector<std::string>& endpoints) = 0;
};

}  // namespace mtrun::rendezvous
