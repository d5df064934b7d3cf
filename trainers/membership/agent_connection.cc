#include "trainers/membership/agent_connection.h"

#include <unistd.h>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "trainers/membership/agent_link.h"

namespace mtrun::trainers {
namespace {

constexpr Duration kSayEvery = std::chrono::seconds(1);

}  // namespace

AgentConnection::AgentConnection() : link_(std::make_shared<AgentLink>()) {}
AgentConnection::~AgentConnection() = default;

absl::StatusOr<std::unique_ptr<AgentConnection>> AgentConnection::Open(const WorkerEnv& worker) {
  std::unique_ptr<AgentConnection> made(new AgentConnection());
  WorkerClient::Handler handler;
  handler.message = [link = made->link_](const channel::AgentMessage& message) { link->Hear(message); };
  handler.closed = [link = made->link_](absl::Status status) {
    link->Lose(absl::StrCat("lost the connection to this node's agent: ", status.message()));
  };
  channel::Hello hello;
  hello.pid = getpid();
  hello.local_rank = worker.local_rank;
  hello.cooperative = true;
  hello.reports = true;
  MT_ASSIGN_OR_RETURN(made->client_, Annotate(WorkerClient::Connect(worker.socket, hello, std::move(handler)),
                                              absl::StrCat("connect to mtrun at ", worker.socket)));
  return made;
}

void AgentConnection::SayWaiting() {
  const TimePoint now = MonotonicNow();
  if (!waits_since_) waits_since_ = now;
  if (now - said_ < kSayEvery) return;
  said_ = now;
  // If the agent is lost, this worker notices it when it meets the others.
  client_->Send(channel::Waiting{.generation = {}, .seconds = ToSeconds(now - *waits_since_)}).IgnoreError();
}

}  // namespace mtrun::trainers
