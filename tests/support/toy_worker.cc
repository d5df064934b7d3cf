// A worker that uses the channel (base/worker_channel.h): puts its rank into the generation's key-value
// space, waits for all ranks, and prints them and its assignment. With the argument "fail_once" rank 1 of the
// first attempt dies while the others wait.
//
// With "cooperative" it outlives its generation: it meets the others in each assigned generation until
// SIGUSR1 (its work is done), SIGUSR2 (it reports broken collectives) or SIGTERM (it leaves, unless the
// second argument is "stays").
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <cstdlib>
#include <deque>
#include <iostream>
#include <mutex>
#include <thread>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "base/worker_client.h"
#include "base/worker_env.h"

namespace mtrun {
namespace {

int Complain(const absl::Status& status) {
  std::cerr << status << std::endl;
  return 1;
}

std::vector<std::string> KeysOf(int world_size) {
  std::vector<std::string> keys;
  for (int rank = 0; rank < world_size; ++rank) keys.push_back(absl::StrCat("rank", rank));
  return keys;
}

int RunOrdinary(bool fail_once) {
  const auto worker = ParseWorkerEnv(CurrentEnvironment());
  if (!worker.ok()) return Complain(worker.status());
  WorkerClient::Handler handler;
  handler.message = [](const channel::AgentMessage& message) {
    std::cout << "told " << channel::Encode(message) << std::flush;
  };
  channel::Hello hello;
  hello.pid = getpid();
  hello.local_rank = worker->local_rank;
  auto agent = WorkerClient::Connect(worker->socket, hello, handler);
  if (!agent.ok()) return Complain(agent.status());
  if (fail_once && worker->rank == 1 && worker->restart_count == 0) raise(SIGKILL);

  const absl::Status set =
      (*agent)->Set(absl::StrCat("rank", worker->rank), absl::StrCat(worker->restart_count));
  if (!set.ok()) return Complain(set);
  const auto values = (*agent)->Wait(KeysOf(worker->world_size));
  if (!values.ok()) return Complain(values.status());
  std::string line = absl::StrCat("all ranks of attempt ", worker->restart_count, ":");
  for (const auto& [key, value] : *values) absl::StrAppend(&line, " ", key, "=", value);
  std::cout << line << std::endl;
  return 0;
}

class Cooperative {
 public:
  explicit Cooperative(bool stays) : stays_(stays) {}

  int Run() {
    const auto worker = ParseWorkerEnv(CurrentEnvironment());
    if (!worker.ok()) return Complain(worker.status());
    WatchSignals();
    channel::Hello hello;
    hello.pid = getpid();
    hello.local_rank = worker->local_rank;
    hello.cooperative = true;
    WorkerClient::Handler handler;
    handler.message = [this](const channel::AgentMessage& message) { Push({message, 0}); };
    handler.closed = [](absl::Status) { _exit(9); };  // the agent is gone
    auto agent = WorkerClient::Connect(worker->socket, hello, std::move(handler));
    if (!agent.ok()) return Complain(agent.status());
    agent_ = *std::move(agent);
    abortable_ = agent_.get();
    while (true) {
      const News news = Pop();
      // _exit: the client's end must not be mistaken for the agent's.
      if (news.signal == SIGTERM && !stays_) _exit(Say(channel::Leaving{"SIGTERM"}));
      if (news.signal == SIGUSR1) _exit(Say(channel::Done{7}));
      if (news.signal == SIGUSR2) Say(channel::Broken{generation_, "reset by peer"});
      if (const auto* assignment = std::get_if<channel::Assignment>(&news.message)) Meet(*assignment);
      if (const auto* dissolved = std::get_if<channel::Dissolved>(&news.message))
        std::cout << "dissolved generation " << dissolved->generation.number << std::endl;
      if (std::holds_alternative<channel::Drain>(news.message)) std::cout << "told to drain" << std::endl;
    }
  }

 private:
  struct News {
    channel::AgentMessage message = channel::StoreValues{};
    int signal = 0;
  };

  void WatchSignals() {
    sigset_t signals;
    sigemptyset(&signals);
    for (const int signal : {SIGTERM, SIGUSR1, SIGUSR2}) sigaddset(&signals, signal);
    pthread_sigmask(SIG_BLOCK, &signals, nullptr);
    std::thread([this, signals] {
      for (int signal = 0; sigwait(&signals, &signal) == 0;) {
        if (WorkerClient* agent = abortable_) agent->Abort("a signal");
        Push({channel::StoreValues{}, signal});
      }
    }).detach();
  }

  void Push(News news) {
    const std::lock_guard lock(mu_);
    news_.push_back(std::move(news));
    changed_.notify_all();
  }

  News Pop() {
    std::unique_lock lock(mu_);
    changed_.wait(lock, [this] { return !news_.empty(); });
    News news = std::move(news_.front());
    news_.pop_front();
    return news;
  }

  int Say(const channel::WorkerMessage& message) {
    const absl::Status sent = agent_->Send(message);
    return sent.ok() ? 0 : Complain(sent);
  }

  void Meet(const channel::Assignment& assignment) {
    generation_ = assignment.generation;
    agent_->Enter(generation_);
    agent_->ResetAbort();
    agent_->Set(absl::StrCat("rank", assignment.rank), absl::StrCat(getpid())).IgnoreError();
    const auto met = agent_->Wait(KeysOf(assignment.world_size));
    if (!met.ok()) return;  // dissolved during the wait
    Say(channel::Ready{generation_});
    std::cout << "in generation " << generation_.number << ": rank " << assignment.rank << " of "
              << assignment.world_size << " pid " << getpid() << " ." << std::endl;
  }

  const bool stays_;
  std::unique_ptr<WorkerClient> agent_;
  std::atomic<WorkerClient*> abortable_ = nullptr;  // the same, for the thread that waits for signals
  channel::Generation generation_;
  std::mutex mu_;
  std::condition_variable changed_;
  std::deque<News> news_;
};

}  // namespace
}  // namespace mtrun

int main(int argc, char** argv) {
  const std::string mode = argc > 1 ? argv[1] : "";
  if (mode == "cooperative") return mtrun::Cooperative(argc > 2 && std::string(argv[2]) == "stays").Run();
  return mtrun::RunOrdinary(mode == "fail_once");
}
