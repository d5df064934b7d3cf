#include "launcher/observe/use_report.h"

#include <asio/post.hpp>
#include <utility>
#include <vector>

#include "launcher/observe/use_reader.h"

namespace mtrun::launcher {
namespace {

std::vector<rendezvous::GpuUse> UseOf(const std::vector<GpuReading>& gpus) {
  std::vector<rendezvous::GpuUse> uses;
  for (const GpuReading& gpu : gpus)
    uses.push_back({gpu.name, gpu.busy_percent, gpu.memory, gpu.memory_total, gpu.temperature});
  return uses;
}

}  // namespace

void UseReport::Measure(rendezvous::NodeUse use, TimePoint now, Done done) {
  if (busy_) return;
  busy_ = true;
  for (rendezvous::WorkerUse& worker : use.workers) steps_.Fill(worker.local_rank, now, &worker);
  asio::post(pool_, [this, use = std::move(use), done = std::move(done)]() mutable {
    ReadUse("", &use);
    if (!std::exchange(looked_for_gpus_, true)) gpus_ = Gpus::Load();
    if (gpus_) use.gpus = UseOf(gpus_->Read());
    asio::post(io_, [this, use = std::move(use), done = std::move(done)] {
      busy_ = false;
      done(use);
    });
  });
}

}  // namespace mtrun::launcher
