#include "rendezvous/session/session_core.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/endpoint.h"
#include "base/log.h"
#include "rendezvous/wire/codec.h"

namespace mtrun::rendezvous {
namespace {

ServiceHost HostOf(const wire::Welcome& welcome, const std::string& where, const std::string& job_endpoint) {
  ServiceHost host{welcome.embedded(), {}};
  if (where != job_endpoint) host.service = where;
  const absl::StatusOr<Endpoint> endpoint = ParseEndpoint(where);
  const bool valid = welcome.presence_port() > 0 && welcome.presence_port() <= kMaxPort && endpoint.ok();
  if (valid) host.presence = {ToText({endpoint->host, welcome.presence_port()}), welcome.presence_id()};
  return host;
}

}  // namespace

// ---- any thread ----

void SessionCore::Send(const AgentEvent& event) {
  const MutexLock lock(mu_);
  end_.outbox.Add(event);
  Pump();
}

bool SessionCore::Flush(Duration timeout) {
  const TimePoint deadline = MonotonicNow() + timeout;
  const MutexLock lock(mu_);
  while (!end_.outbox.AllAcknowledged()) {
    const bool hopeless = over_ && !end_.welcomed();
    if (hopeless || !changed_.WaitUntil(mu_, deadline)) break;
  }
  return end_.outbox.AllAcknowledged();
}

void SessionCore::Stop() {
  {
    const MutexLock lock(mu_);
    stopping_ = true;
    if (stream_) stream_->Cancel();
    changed_.NotifyAll();
  }
  thread_.join();
  const MutexLock lock(mu_);
  while (stream_ && !done_) changed_.Wait(mu_);
  stream_.reset();
  // A callback that is returning may hold the last reference to this object. It must not destroy the last
  // channel, which joins gRPC's callback threads, including its own (a double free in gRPC 1.51).
  services_.Disconnect();
}

// ---- gRPC's threads ----

void SessionCore::OnMessage(ClientStream* stream, const wire::ServiceMessage& message) {
  std::string where;
  std::optional<ServiceEvent> event;
  std::optional<Duration> leased_from, leased_outside;
  Generation leased, left;
  {
    const MutexLock lock(mu_);
    if (stopping_ || stream != stream_.get()) return;
    last_heard_ = MonotonicNow();
    where = services_.Where();
    if (message.has_welcome()) {
      retry_.Connected();
      if (options_.endpoints.size() < 2) services_.KeepThis();
      end_.OnWelcome(message.welcome().service_id(), message.welcome().resumed(), message.ack());
    } else if (end_.welcomed()) {
      end_.outbox.Acknowledge(message.ack());
      if (message.has_lease()) {
        const Lease lease = DecodeLease(message.lease());
        leased_from = end_.TakeLease(lease);
        leased_outside = end_.OutsideLease(lease);
        left = end_.outbox.seen();
      }
      if (message.has_event()) event = TakeEvent(message.event());
      if (event && std::holds_alternative<Assigned>(*event)) leased_from = end_.FirstLease();
      leased = end_.outbox.current();
      if (event && std::holds_alternative<Redirect>(*event)) {
        Follow(std::get<Redirect>(*event));
        event.reset();
      }
    }
    Pump();
    changed_.NotifyAll();
  }
  if (leased_from && handler_.leased) handler_.leased(leased, *leased_from);
  if (leased_outside && handler_.leased_outside) handler_.leased_outside(left, *leased_outside);
  if (message.has_welcome() && handler_.connected)
    handler_.connected(HostOf(message.welcome(), where, options_.endpoint));
  if (event && handler_.event) handler_.event(*event);
}

void SessionCore::TryToo(const std::vector<std::string>& endpoints) {
  const MutexLock lock(mu_);
  if (end_.welcomed() || over_) return;
  end_.OnHostDead(BootNow());
  services_.Add(options_.endpoint);
  for (const std::string& endpoint : endpoints) services_.Add(endpoint);
  services_.MoveTo(endpoints.empty() ? options_.endpoint : endpoints.front());
  retry_.StartOver(MonotonicNow());
  log::Info("trying the services of other nodes: ", services_.All());
  if (stream_) {  // an attempt is in progress
    redirected_ = "it is given up";
    stream_->Cancel();
  }
  changed_.NotifyAll();
}

void SessionCore::Follow(const Redirect& redirect) {
  const std::string from = services_.Where();
  services_.Add(redirect.endpoint);
  if (!services_.MoveTo(redirect.endpoint)) return;
  redirected_ = absl::StrCat("the job is at ", redirect.endpoint, ", not at ", from, ": ", redirect.reason);
  stream_->Cancel();
}

/// Returns the refusal of the service by this agent, or the error if nothing depends on the event.
absl::StatusOr<ServiceEvent> SessionCore::OnMalformed(const wire::ServiceEvent& event,
                                                      const absl::Status& why) {
  const std::string text = absl::StrCat("the rendezvous service at ", services_.Where(),
                                        " sent a malformed event: ", why.message());
  if (event.has_assigned() || event.has_dissolved() || event.has_ended() || event.has_refused())
    return ServiceEvent(Refused{{options_.node_id, options_.node_id, NotServed{text}}});
  log::Warning(text);
  return why;
}

std::optional<ServiceEvent> SessionCore::TakeEvent(const wire::ServiceEvent& wire_event) {
  if (end_.Take(wire_event.sequence()) != StreamReceiver::Arrival::kNew) return std::nullopt;
  absl::StatusOr<ServiceEvent> event = DecodeServiceEvent(wire_event);
  if (!event.ok()) event = OnMalformed(wire_event, event.status());
  if (!event.ok()) return std::nullopt;
  if (!end_.outbox.Observe(*event)) return std::nullopt;
  over_ = over_ || std::holds_alternative<JobEnded>(*event) || std::holds_alternative<Refused>(*event);
  return *std::move(event);
}

void SessionCore::OnWritten() {
  const MutexLock lock(mu_);
  writing_ = false;
  Pump();
}

void SessionCore::OnReadsEnded() {
  const MutexLock lock(mu_);
  reads_ended_ = true;
}

void SessionCore::OnDone(const grpc::Status& status) {
  const MutexLock lock(mu_);
  done_ = status;
  changed_.NotifyAll();
}

// ---- with the mutex ----

void SessionCore::Pump() {
  if (!stream_ || writing_ || reads_ended_) return;
  wire::AgentMessage message;
  if (hello_due_) {
    hello_due_ = false;
    message = MakeHello();
  } else if (!end_.welcomed()) {
    return;
  } else if (heartbeat_due_) {
    heartbeat_due_ = false;
    *message.mutable_heartbeat() =
        EncodeHeartbeat({MainLoopAge(), note_, BootNow(), end_.outbox.known(), ordinary_});
  } else if (const auto next = end_.outbox.Next()) {
    *message.mutable_event() = EncodeAgentEvent(next->sequence, *next->message);
  } else if (!end_.receiver.acknowledgement_due()) {
    return;
  }
  message.set_ack(end_.receiver.Acknowledge());
  writing_ = true;
  stream_->Write(std::move(message));
}

wire::AgentMessage SessionCore::MakeHello() const {
  HelloData hello;
  hello.node_id = options_.node_id;
  hello.session_id = session_id_;
  hello.service_id = end_.welcomed_by();
  hello.attempt = end_.attempt();
  hello.opened = end_.outbox.Opening(options_.job);
  hello.opened.silence = end_.Silence(BootNow());
  wire::AgentMessage message;
  *message.mutable_hello() = EncodeHello(hello);
  return message;
}

Duration SessionCore::MainLoopAge() const {
  const int64_t stamp = stamp_;
  return stamp == 0 ? Duration::zero() : MonotonicNow().time_since_epoch() - Duration(stamp);
}

}  // namespace mtrun::rendezvous
