// A worker that reduces with the others over the CPU process group, like trainers, without LibTorch. In the
// first attempt rank 1 dies once all are connected.
#include <signal.h>
#include <unistd.h>

#include <iostream>
#include <memory>

#include "base/status_macros.h"
#include "base/worker_client.h"
#include "base/worker_env.h"
#include "trainers/collectives/agent_store.h"
#include "trainers/collectives/group.h"

namespace mtrun {
namespace {

absl::Status Run() {
  MT_ASSIGN_OR_RETURN(const WorkerEnv worker, ParseWorkerEnv(CurrentEnvironment()));
  channel::Hello hello;
  hello.pid = getpid();
  hello.local_rank = worker.local_rank;
  MT_ASSIGN_OR_RETURN(const std::shared_ptr<WorkerClient> agent,
                      WorkerClient::Connect(worker.socket, hello, {}));
  collectives::AgentStore store(agent);
  collectives::GroupMember member = {worker.rank, worker.world_size, worker.generation, ""};
  MT_ASSIGN_OR_RETURN(const channel::Generation generation, channel::ParseGeneration(worker.generation));
  member.unreached = [&](int rank) {
    agent->Send(channel::Waiting{.generation = generation, .seconds = 5, .unreached = rank}).IgnoreError();
  };
  MT_ASSIGN_OR_RETURN(const auto group, collectives::Group::Connect(member, &store));
  MT_RETURN_IF_ERROR(group->Barrier()->Wait());
  if (worker.restart_count == 0 && worker.rank == 1) raise(SIGKILL);
  float sum = static_cast<float>(worker.rank + 1);
  MT_RETURN_IF_ERROR(
      group->AllReduce(&sum, 1, collectives::DataType::kFloat32, collectives::ReduceOp::kSum)->Wait());
  std::cout << "SUM " << sum << " in attempt " << worker.restart_count << std::endl;
  return group->Barrier()->Wait();
}

}  // namespace
}  // namespace mtrun

int main() {
  const absl::Status status = mtrun::Run();
  if (status.ok()) return 0;
  std::cerr << status << std::endl;
  return 1;
}
