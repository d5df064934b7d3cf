#include "rendezvous/service/registrar.h"

#include <algorithm>
#include <asio/post.hpp>

#include "absl/strings/str_cat.h"
#include "base/endpoint.h"
#include "base/log.h"

namespace mtrun::rendezvous {

Registrar::Registrar(asio::io_context& loop, uint64_t service_id, const ServiceOptions& options)
    : loop_(loop),
      service_id_(service_id),
      options_(options),
      started_(MonotonicNow()),
      states_(options.state_folder,
              StateKey(options.endpoint.empty() ? options.listen : options.endpoint, options.state_host)),
      jobs_(
          JobMachine::Options{.seed = RandomBits(),
                              .service_started = started_,
                              .recovery_window = options.recovery_window,
                              .role = {options.endpoint, options.embedded, !options.standby_address.empty()}},
          options.job_id),
      timer_(loop),
      hello_timer_(loop),
      probe_timer_(loop),
      heartbeats_(loop),
      logs_(loop) {}

void Registrar::Begin(int port) {
  jobs_.Remember(states_.Load(), states_.LoadEnds());
  if (!options_.standby_address.empty()) own_endpoint_ = ToText(Endpoint{options_.standby_address, port});
}

void Registrar::OnPeerStatus(const std::string& job_id, PeerService peer) {
  if (peer.endpoint.empty()) return;
  if (peer.generation.number > 0) places_.OnNamed(job_id, peer.endpoint, peer.authority, MonotonicNow());
  ProbeResult heard;
  heard.peers.push_back(std::move(peer));
  heard.heard = true;
  Step(job_id, Event{"", std::move(heard)});
}

void Registrar::OnOpened(const StreamPtr& stream) {
  awaiting_hello_.emplace_back(MonotonicNow() + options_.hello_patience, stream);
  if (awaiting_hello_.size() == 1) ArmHelloTimer();
}

void Registrar::ArmHelloTimer() {
  hello_timer_.expires_at(awaiting_hello_.front().first);
  hello_timer_.async_wait([this](const std::error_code& error) {
    if (error) return;
    const TimePoint now = MonotonicNow();
    while (!awaiting_hello_.empty() && awaiting_hello_.front().first <= now) {
      const StreamPtr stream = awaiting_hello_.front().second.lock();
      awaiting_hello_.pop_front();
      if (stream && !stream->said_hello)
        stream->Close({grpc::StatusCode::DEADLINE_EXCEEDED, "the first message, Hello, did not arrive"});
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
    session->end.receiver.RequestAcknowledgement();
    OnHeartbeat(*session, DecodeHeartbeat(message.heartbeat()));
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
  const bool known = sessions_.contains({hello->opened.settings.job_id, hello->node_id});
  if (!known && sessions_.size() >= options_.most_agents) {
    return stream->Close({grpc::StatusCode::RESOURCE_EXHAUSTED,
                          absl::StrCat("this service already serves ", options_.most_agents, " agents")});
  }
  const SessionPtr session = FindOrMakeSession(*hello);
  if (!session->end.Takes(hello->attempt))
    return stream->Close({grpc::StatusCode::ABORTED, "its agent has opened a newer stream since"});
  if (session->stream) {  // replaces a half-open connection
    session->stream->session.reset();
    session->stream->Close({grpc::StatusCode::ABORTED, "replaced by a newer stream of the same agent"});
  }
  session->Open(hello->service_id, acknowledged);
  session->stream = stream;
  stream->session = session;
  Step(session->job_id, Event{session->node_id, hello->opened});
  Pump(*session);
}

Registrar::SessionPtr Registrar::FindOrMakeSession(const HelloData& hello) {
  const SessionKey key(hello.opened.settings.job_id, hello.node_id);
  if (const auto found = sessions_.find(key); found != sessions_.end()) {
    const SessionPtr session = found->second;
    if (session->session_id == hello.session_id) return session;
    Step(key.first, Event{key.second, AgentSaid{Leaving{{.why = NodeLeft::Why::kStartedAgain}}, {}}});
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
  const StreamReceiver::Arrival arrival = session->end.receiver.Take(event.sequence());
  if (arrival == StreamReceiver::Arrival::kRepeated) return;
  if (arrival == StreamReceiver::Arrival::kGap)
    return Drop(stream,
                absl::StrCat("event ", event.sequence(), " came after ", session->end.receiver.received()));
  absl::StatusOr<AgentSaid> said = DecodeAgentEvent(event, jobs_.RunningIn(session->job_id));
  if (!said.ok()) return OnMalformed(session, event, said.status());
  if (auto* log = std::get_if<LogPart>(&said->event))
    return logs_.OnAnswer(session->node_id, std::move(*log));
  if (auto* use = std::get_if<NodeUse>(&said->event)) {
    if (!session->closing)
      watch_state_.OnUse({session->job_id, session->node_id}, std::move(*use), MonotonicNow());
    return;
  }
  Step(session->job_id, Event{session->node_id, *std::move(said)});
}

void Registrar::OnMalformed(const SessionPtr& session, const wire::AgentEvent& event,
                            const absl::Status& status) {
  const std::string why = absl::StrCat("malformed event: ", status.message());
  const bool for_people = event.has_steps() || event.has_log() || event.has_use();
  if (!for_people || !std::exchange(session->warned, true))
    log::Warning("rendezvous ", session->job_id, ": ", session->node_id, ": ", why);
  if (for_people) return;
  Step(session->job_id, Event{session->node_id, AgentSaid{Leaving{{why}}, {}}});
  Send(*session, Refused{{session->node_id, session->node_id, NotServed{why}}});
  Close({session->job_id, session->node_id});
}

void Registrar::OnEnded(const StreamPtr& stream, const NodeLost& why) {
  const SessionPtr session = std::exchange(stream->session, nullptr);
  if (session && session->stream == stream) {
    session->stream.reset();
    if (!session->closing) Step(session->job_id, Event{session->node_id, StreamClosed{why}});
    const auto entry = sessions_.find({session->job_id, session->node_id});
    const bool current = entry != sessions_.end() && entry->second == session;
    if (current && !jobs_.Has(session->job_id, session->node_id)) {  // the node had left
      watch_state_.OnNodeGone(entry->first);
      sessions_.erase(entry);
    }
  }
  CheckQuiet();
}

void Registrar::Drop(const StreamPtr& stream, const std::string& why) {
  stream->Close({grpc::StatusCode::INVALID_ARGUMENT, why});
  OnEnded(stream, {why});
}

void Registrar::Step(const std::string& job_id, const Event& event) {
  const Before before = LookBefore(job_id);
  Perform(jobs_.Step(job_id, event, MonotonicNow()));
  SayWord(job_id);
  NoteEnd(job_id, before);
  WriteDown(job_id, before);
  CheckEnds();
  ArmTimer(jobs_.NextDeadlineOf(job_id));
  ConsiderProbing();
}

/// A heartbeat moves deadlines of its node alone, and changes nothing that is written down or probed.
void Registrar::OnHeartbeat(ServiceSession& session, const Heartbeat& heartbeat) {
  session.heartbeat = heartbeat.sent;
  Perform(jobs_.Step(session.job_id, Event{session.node_id, heartbeat}, MonotonicNow()));
  ArmTimer(jobs_.NextDeadlineOf(session.job_id));
}

void Registrar::AdoptMembership(const std::string& job_id, const Assignment& last) {
  if (jobs_.AdoptMembership(job_id, last)) states_.Keep(job_id, last, {});
}

void Registrar::WriteDown(const std::string& job_id, const Before& before) {
  const auto job = jobs_.jobs().find(job_id);
  if (job == jobs_.jobs().end()) {
    const auto end = before.had ? jobs_.LastEnd(job_id) : std::nullopt;
    if (end && (!options_.embedded || end->run.incarnation == before.run)) states_.End(*end);
    // If others may have the job, it may have moved there. Otherwise nothing of it is left anywhere.
    if (before.had && !options_.embedded) states_.Forget(job_id);
    return;
  }
  // The other services of a list know of the job, and it may end at any of them.
  if (!options_.embedded && job->second.settings().endpoints.size() > 1) return;
  if (const auto& outcome = job->second.outcome()) {
    const EndedRun run = {job->second.incarnation(), job->second.last_number(), outcome->success};
    states_.End({job_id, run, *outcome});
  } else if (job->second.IsKnownToRun()) {
    states_.Keep(job_id, *job->second.last_generation(), job->second.verified(), job->second.spares());
  }
}

void Registrar::Perform(const std::vector<JobTable::JobEffect>& effects) {
  for (const auto& [job_id, effect] : effects) {
    if (const auto* line = std::get_if<LogLine>(&effect)) {
      watch_state_.OnLine(job_id, WallClockNs(), line->text, line->cause);
      // An agent already logs what every agent is notified of.
      log::Write(line->detail && options_.embedded ? log::Level::kDebug : log::Level::kInfo,
                 absl::StrCat("rendezvous ", job_id, ": ", line->text));
    } else if (const auto* send = std::get_if<rendezvous::Send>(&effect)) {
      if (const auto* moved = std::get_if<Redirect>(&send->event))
        places_.OnNamed(job_id, moved->endpoint, /*authority=*/true, MonotonicNow());
      const auto session = sessions_.find({job_id, send->node_id});
      if (session != sessions_.end()) Send(*session->second, send->event);
    } else {
      Close({job_id, std::get<CloseSession>(effect).node_id});
    }
  }
}

void Registrar::Send(ServiceSession& session, const ServiceEvent& event) {
  session.end.sender.Add(encoder_.Encode(event));
  session.kept_bytes += session.end.sender.kept().back().size();
  const bool too_much = session.kept_bytes > kMaxUnacknowledgedBytes ||
                        session.end.sender.kept().size() > kMaxUnacknowledgedEvents;
  if (too_much && !session.overflowed) {
    const auto entry = sessions_.find({session.job_id, session.node_id});
    session.overflowed = entry != sessions_.end();
    // Posted, because the effects of the step in progress come first.
    if (session.overflowed) asio::post(loop_, [this, dropped = entry->second] { DropOverflowed(dropped); });
  }
  Pump(session);
}

void Registrar::DropOverflowed(const SessionPtr& session) {
  const auto entry = sessions_.find({session->job_id, session->node_id});
  if (entry == sessions_.end() || entry->second != session) return;
  const std::string why =
      absl::StrCat("it does not acknowledge its messages (", session->kept_bytes >> 20, " MiB wait)");
  log::Warning("rendezvous ", session->job_id, ": ", session->node_id, ": ", why, "; it is dropped");
  watch_state_.OnNodeGone(entry->first);
  sessions_.erase(entry);
  session->closing = true;
  if (const StreamPtr stream = std::exchange(session->stream, nullptr)) {
    stream->session.reset();
    stream->Abort({grpc::StatusCode::RESOURCE_EXHAUSTED, why});
  }
  Step(session->job_id, Event{session->node_id, AgentSaid{Leaving{{why}}, {}}});
}

void Registrar::Close(const SessionKey& key) {
  const auto found = sessions_.find(key);
  if (found == sessions_.end()) return;
  const SessionPtr session = found->second;
  sessions_.erase(found);
  watch_state_.OnNodeGone(key);
  session->closing = true;
  Pump(*session);
}

/// Writes all that is due, as far as the stream takes it; the rest follows when it is writable.
void Registrar::Pump(ServiceSession& session) {
  // The stream may hold the last reference to the session, and is closed after the last message.
  const SessionPtr kept = session.stream ? session.stream->session : nullptr;
  const auto wants = [&] {
    return session.welcome_due || !session.end.sender.AllWritten() ||
           session.end.receiver.acknowledgement_due() || session.closing;
  };
  while (session.stream && wants() && session.stream->writable()) WriteNext(session);
}

/// REQUIRES: a message is due, and the stream is writable.
void Registrar::WriteNext(ServiceSession& session) {
  const StreamPtr stream = session.stream;
  wire::ServiceMessage message;
  if (session.welcome_due) {
    session.welcome_due = false;
    message.mutable_welcome()->set_protocol(kProtocolVersion);
    message.mutable_welcome()->set_service_id(session.end.id());
    message.mutable_welcome()->set_resumed(session.resumed);
    message.mutable_welcome()->set_embedded(options_.embedded);
    message.mutable_welcome()->set_presence_port(options_.presence_port);
    message.mutable_welcome()->set_presence_id(options_.presence_id);
  } else if (const auto next = session.end.sender.Next()) {
    return stream->Write(ToBytes(session.end.receiver.Acknowledge(), next->sequence, *next->message));
  } else if (!session.end.receiver.acknowledgement_due()) {
    session.stream.reset();
    stream->session.reset();
    return stream->Close(grpc::Status::OK);
  } else if (session.heartbeat > Duration::zero()) {
    const Duration sent = std::exchange(session.heartbeat, Duration::zero());
    *message.mutable_lease() =
        EncodeLease(jobs_.LeaseFor(session.job_id, session.node_id, sent, MonotonicNow()));
  }
  message.set_ack(session.end.receiver.Acknowledge());
  stream->Write(ToBytes(message));
}

void Registrar::ArmTimer(std::optional<TimePoint> due) {
  // Heartbeats move deadlines back all the time. A timer that fires early finds nothing due and is armed
  // again.
  if (!due || (armed_for_ && *armed_for_ <= *due)) return;
  armed_for_ = due;
  timer_.expires_at(*due);
  timer_.async_wait([this](const std::error_code& error) {
    if (error) return;
    // Runs after everything that has already arrived: input is drained before deadlines are checked.
    asio::post(loop_, [this] { OnTimer(); });
  });
}

void Registrar::OnTimer() {
  heartbeats_.Drain();
  armed_for_.reset();
  std::map<std::string, Before> before;
  for (const auto& [job_id, job] : jobs_.jobs()) before[job_id] = LookBefore(job_id);
  Perform(jobs_.Tick(MonotonicNow()));
  for (const auto& [job_id, was] : before) {
    NoteEnd(job_id, was);
    WriteDown(job_id, was);
  }
  CheckEnds();
  ArmTimer(jobs_.NextDeadline());
  ConsiderProbing();
}

void Registrar::CheckQuiet() {
  const auto busy = [](const auto& entry) {
    return entry.second->stream && !entry.second->end.sender.kept().empty();
  };
  if (quiet_ && std::none_of(sessions_.begin(), sessions_.end(), busy)) std::exchange(quiet_, nullptr)();
}

}  // namespace mtrun::rendezvous
