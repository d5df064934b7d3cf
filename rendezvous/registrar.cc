#include "rendezvous/registrar.h"

#include <algorithm>
#include <asio/post.hpp>

#include "absl/strings/str_cat.h"
#include "base/log.h"
#include "rendezvous/scout.h"

namespace mtrun::rendezvous {

void Registrar::OnOpened(const StreamPtr& stream) {
  awaiting_hello_.emplace_back(MonotonicNow() + options_.hello_patience, stream);
  if (awaiting_hello_.size() == 1) ArmHelloTimer();
}

void Registrar::ArmHelloTimer() {
  hello_timer_.expires_at(
      std::chrono::time_point_cast<std::chrono::steady_clock::duration>(awaiting_hello_.front().first));
  hello_timer_.async_wait([this](const std::error_code& error) {
    if (error) return;
    const TimePoint now = MonotonicNow();
    while (!awaiting_hello_.empty() && awaiting_hello_.front().first <= now) {
      const StreamPtr stream = awaiting_hello_.front().second.lock();
      awaiting_hello_.pop_front();
      if (stream && !stream->said_hello)
        stream->Close({grpc::StatusCode::DEADLINE_EXCEEDED, "the first message, Hello, did not come"});
    }
    if (!awaiting_hello_.empty()) ArmHelloTimer();
  });
}

void Registrar::OnMessage(const StreamPtr& stream, const wire::AgentMessage& message) {
  const SessionPtr session = stream->session;
  if (message.has_hello()) {
    if (std::exchange(stream->said_hello, true)) return Drop(stream, "a second Hello");
    return OnHello(stream, message.hello(), message.ack());
  }
  if (!session) return stream->Close({grpc::StatusCode::INVALID_ARGUMENT, "the first message must be Hello"});
  session->Acknowledge(message.ack());
  if (message.has_event()) OnEvent(stream, session, message.event());
  if (message.has_heartbeat()) {
    session->acknowledgement_due = true;
    Step(session->job_id, Event{session->node_id, DecodeHeartbeat(message.heartbeat())});
  }
  Pump(*session);
  CheckQuiet();
}

void Registrar::OnHello(const StreamPtr& stream, const wire::Hello& message, uint64_t acknowledged) {
  const absl::StatusOr<HelloData> hello = DecodeHello(message);
  if (!hello.ok()) {
    return stream->Close(
        {static_cast<grpc::StatusCode>(hello.status().code()), std::string(hello.status().message())});
  }
  if (sessions_.size() >= kMostSessions) {
    return stream->Close({grpc::StatusCode::RESOURCE_EXHAUSTED,
                          absl::StrCat("this service already serves ", kMostSessions, " agents")});
  }
  bool resumed = false;
  const SessionPtr session = FindOrMakeSession(*hello, resumed);
  if (session->stream) {  // a half-open connection that this one replaces
    session->stream->session.reset();
    session->stream->Close({grpc::StatusCode::ABORTED, "replaced by a newer stream of the same agent"});
  }
  if (resumed) session->Acknowledge(acknowledged);
  session->stream = stream;
  session->written = 0;
  session->resumed = resumed;
  session->welcome_due = true;
  stream->session = session;
  Step(session->job_id, Event{session->node_id, hello->opened});
  Pump(*session);
}

Registrar::SessionPtr Registrar::FindOrMakeSession(const HelloData& hello, bool& resumed) {
  const SessionKey key(hello.opened.settings.job_id, hello.node_id);
  if (const auto found = sessions_.find(key); found != sessions_.end()) {
    const SessionPtr session = found->second;
    if (session->session_id == hello.session_id) {
      // Id 0: it never heard our Welcome, so its numbers are still the first ones.
      // Not the service's id: it may have forgotten the agent since, and a Welcome may be lost on the way.
      resumed = hello.service_id == session->welcome_id || hello.service_id == 0;
      if (!resumed) session->BeginNumbersAnew();
      return session;
    }
    Step(key.first,
         Event{key.second,
               AgentSaid{Leaving{"its agent was started again under the same id", false, 0}, {}, {}}});
    Close(key);
  }
  const auto session = std::make_shared<ServiceSession>();
  session->job_id = key.first;
  session->node_id = key.second;
  session->session_id = hello.session_id;
  sessions_[key] = session;
  return session;
}

void Registrar::OnEvent(const StreamPtr& stream, const SessionPtr& session, const wire::AgentEvent& event) {
  session->acknowledgement_due = true;
  if (event.sequence() <= session->received) return;  // came over the old stream already
  if (event.sequence() != session->received + 1) {
    return Drop(stream, absl::StrCat("event ", event.sequence(), " came after ", session->received));
  }
  session->received = event.sequence();
  const absl::StatusOr<AgentSaid> said = DecodeAgentEvent(event);
  if (!said.ok()) return OnMalformed(session, said.status());
  Step(session->job_id, Event{session->node_id, *said});
}

void Registrar::OnMalformed(const SessionPtr& session, const absl::Status& status) {
  const std::string why = absl::StrCat("malformed event: ", status.message());
  log::Warning("rendezvous ", session->job_id, ": ", session->node_id, ": ", why);
  Step(session->job_id, Event{session->node_id, AgentSaid{Leaving{why, false, 0}, {}, {}}});
  Send(*session, Refused{why});
  Close({session->job_id, session->node_id});
}

void Registrar::OnEnded(const StreamPtr& stream, const std::string& why) {
  const SessionPtr session = std::exchange(stream->session, nullptr);
  if (session && session->stream == stream) {
    session->stream.reset();
    if (!session->closing) Step(session->job_id, Event{session->node_id, StreamClosed{why}});
    const auto entry = sessions_.find({session->job_id, session->node_id});
    const bool current = entry != sessions_.end() && entry->second == session;
    if (current && !Knows(*session)) sessions_.erase(entry);  // it had left
  }
  CheckQuiet();
}

void Registrar::Drop(const StreamPtr& stream, const std::string& why) {
  stream->Close({grpc::StatusCode::INVALID_ARGUMENT, why});
  OnEnded(stream, why);
}

bool Registrar::Knows(const ServiceSession& session) const {
  const auto job = jobs_.jobs().find(session.job_id);
  return job != jobs_.jobs().end() && job->second.Has(session.node_id);
}

void Registrar::Step(const std::string& job_id, const Event& event) {
  Perform(jobs_.Step(job_id, event, MonotonicNow()));
  ArmTimer();
  ConsiderLooking();
}

Registrar::~Registrar() {
  if (looker_.joinable()) looker_.join();
}

void Registrar::ConsiderLooking() {
  if (looking_) return;
  const TimePoint now = MonotonicNow();
  std::vector<LookWanted> wanted;
  std::optional<TimePoint> later;
  for (const auto& [job_id, job] : jobs_.jobs()) {
    std::optional<LookWanted> look = job.WantsLook();
    if (!look) continue;
    const TimePoint due = last_look_ + job.LookPause();
    if (due <= now) wanted.push_back(*std::move(look));
    if (due > now && (!later || due < *later)) later = due;
  }
  if (wanted.empty()) {
    if (!later) return;
    look_timer_.expires_at(std::chrono::time_point_cast<std::chrono::steady_clock::duration>(*later));
    look_timer_.async_wait([this](const std::error_code& error) {
      if (!error) ConsiderLooking();
    });
    return;
  }
  looking_ = true;
  if (looker_.joinable()) looker_.join();
  looker_ = std::thread([this, wanted = std::move(wanted)]() mutable { Look(std::move(wanted)); });
}

// On a thread of its own: what does not answer takes its time.
void Registrar::Look(std::vector<LookWanted> wanted) {
  ScoutOptions options;
  options.service_id = service_id_;
  options.insecure = options_.insecure;
  options.token = options_.token;
  std::vector<std::pair<std::string, LookedAround>> found;
  for (const LookWanted& look : wanted) found.emplace_back(look.job_id, LookAround(look, options));
  asio::post(loop_, [this, found = std::move(found)] {
    looking_ = false;
    last_look_ = MonotonicNow();
    for (const auto& [job_id, looked] : found) Step(job_id, Event{"", looked});
  });
}

void Registrar::Perform(const std::vector<JobTable::JobEffect>& effects) {
  for (const auto& [job_id, effect] : effects) {
    if (const auto* line = std::get_if<LogLine>(&effect)) {
      // Inside an agent its own lines say what every agent is told.
      log::Write(line->told && options_.embedded ? log::Level::kDebug : log::Level::kInfo,
                 absl::StrCat("rendezvous ", job_id, ": ", line->text));
    } else if (const auto* send = std::get_if<rendezvous::Send>(&effect)) {
      const auto session = sessions_.find({job_id, send->node_id});
      if (session != sessions_.end()) Send(*session->second, send->event);
    } else {
      Close({job_id, std::get<CloseSession>(effect).node_id});
    }
  }
}

wire::ServiceEvent Registrar::Encode(uint64_t sequence, const ServiceEvent& event) {
  const auto* assigned = std::get_if<Assigned>(&event);
  if (assigned == nullptr) return EncodeServiceEvent(sequence, event);
  if (!encoded_ || *encoded_ != *assigned) {
    encoded_ = *assigned;
    encoding_ = EncodeServiceEvent(0, event);
  }
  wire::ServiceEvent copy = encoding_;
  copy.set_sequence(sequence);
  return copy;
}

void Registrar::Send(ServiceSession& session, const ServiceEvent& event) {
  session.unacknowledged.push_back(Encode(session.next_sequence++, event));
  session.unacknowledged_bytes += session.unacknowledged.back().ByteSizeLong();
  const bool too_much = session.unacknowledged_bytes > kMostUnacknowledgedBytes ||
                        session.unacknowledged.size() > kMostUnacknowledgedEvents;
  const auto entry = sessions_.find({session.job_id, session.node_id});
  if (too_much && entry != sessions_.end() && !std::exchange(session.overflowed, true)) {
    // Later: the effects of the step in progress come first.
    asio::post(loop_, [this, dropped = entry->second] { DropOverflowed(dropped); });
  }
  Pump(session);
}

void Registrar::DropOverflowed(const SessionPtr& session) {
  const auto entry = sessions_.find({session->job_id, session->node_id});
  if (entry == sessions_.end() || entry->second != session) return;
  const std::string why = absl::StrCat("it does not acknowledge what it is sent (",
                                       session->unacknowledged_bytes >> 20, " MiB wait)");
  log::Warning("rendezvous ", session->job_id, ": ", session->node_id, ": ", why, "; it is dropped");
  sessions_.erase(entry);
  session->closing = true;
  if (const StreamPtr stream = std::exchange(session->stream, nullptr)) {
    stream->session.reset();
    stream->Abort({grpc::StatusCode::RESOURCE_EXHAUSTED, why});
  }
  Step(session->job_id, Event{session->node_id, AgentSaid{Leaving{why, false, 0}, {}, {}}});
}

void Registrar::Close(const SessionKey& key) {
  const auto found = sessions_.find(key);
  if (found == sessions_.end()) return;
  const SessionPtr session = found->second;
  sessions_.erase(found);
  session->closing = true;
  Pump(*session);
}

void Registrar::Pump(ServiceSession& session) {
  const StreamPtr stream = session.stream;
  if (!stream || !stream->writable()) return;
  wire::ServiceMessage message;
  message.set_ack(session.received);
  if (session.welcome_due) {
    session.welcome_due = false;
    message.mutable_welcome()->set_protocol(kProtocolVersion);
    message.mutable_welcome()->set_service_id(session.welcome_id);
    message.mutable_welcome()->set_resumed(session.resumed);
  } else if (session.written < session.unacknowledged.size()) {
    *message.mutable_event() = session.unacknowledged[session.written++];
  } else if (!session.acknowledgement_due) {
    if (!session.closing) return;
    session.stream.reset();
    stream->session.reset();
    return stream->Close(grpc::Status::OK);
  }
  session.acknowledgement_due = false;
  stream->Write(std::move(message));
}

void Registrar::ArmTimer() {
  const std::optional<TimePoint> due = jobs_.NextDeadline();
  // Heartbeats move deadlines back all the time; a timer that fires early finds nothing due and is armed
  // again.
  if (!due || (armed_for_ && *armed_for_ <= *due)) return;
  armed_for_ = due;
  timer_.expires_at(std::chrono::time_point_cast<std::chrono::steady_clock::duration>(*due));
  timer_.async_wait([this](const std::error_code& error) {
    if (error) return;
    // Behind everything that has already come in: input is drained before deadlines are judged.
    asio::post(loop_, [this] { OnTimer(); });
  });
}

void Registrar::OnTimer() {
  armed_for_.reset();
  Perform(jobs_.Tick(MonotonicNow()));
  ArmTimer();
  ConsiderLooking();
}

void Registrar::CheckQuiet() {
  const auto busy = [](const auto& entry) {
    return entry.second->stream && !entry.second->unacknowledged.empty();
  };
  if (quiet_ && std::none_of(sessions_.begin(), sessions_.end(), busy)) std::exchange(quiet_, nullptr)();
}

void Registrar::FillStatus(wire::StatusReply& reply) const {
  const TimePoint now = MonotonicNow();
  reply.set_protocol(kProtocolVersion);
  reply.set_uptime_ns((now - started_).count());
  for (const auto& [job_id, job] : jobs_.jobs()) EncodeJobView(job.View(now), reply.add_jobs());
}

}  // namespace mtrun::rendezvous
