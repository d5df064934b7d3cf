// A worker that speaks the channel (base/worker_channel.h): puts its rank into the generation's key-value
// space, waits for all ranks, prints them and what it was assigned. With the argument "fail_once" rank 1 of
// the first attempt dies while the others wait.
#include <signal.h>
#include <unistd.h>

#include <cstdlib>
#include <iostream>

#include "absl/strings/str_cat.h"
#include "base/worker_client.h"
#include "base/worker_env.h"

namespace mtrun {
namespace {

int Complain(const absl::Status& status) {
  std::cerr << status << std::endl;
  return 1;
}

int Run(bool fail_once) {
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
  std::vector<std::string> keys;
  for (int rank = 0; rank < worker->world_size; ++rank) keys.push_back(absl::StrCat("rank", rank));
  const auto values = (*agent)->Wait(keys);
  if (!values.ok()) return Complain(values.status());
  std::string line = absl::StrCat("all ranks of attempt ", worker->restart_count, ":");
  for (const auto& [key, value] : *values) absl::StrAppend(&line, " ", key, "=", value);
  std::cout << line << std::endl;
  return 0;
}

}  // namespace
}  // namespace mtrun

int main(int argc, char** argv) { return mtrun::Run(argc > 1 && std::string(argv[1]) == "fail_once"); }
