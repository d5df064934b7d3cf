#include "launcher/observe/worker_steps.h"

#include <algorithm>

#include "base/utf8.h"

namespace mtrun::launcher {
namespace {

/// Limits what a worker says of its run, for people, to what a message can carry.
int64_t Clamped(int64_t number) { return std::clamp<int64_t>(number, 0, int64_t{1} << 53); }

}  // namespace

void WorkerSteps::OnProgress(int local_rank, const channel::Progress& progress, TimePoint now) {
  Worker& worker = workers_[local_rank];
  worker.samples = progress.samples;
  std::deque<Report>& reports = worker.reports;
  // If steps are repeated after a loss, reports restart from there.
  if (!reports.empty() && progress.step <= reports.back().step) {
    if (progress.step == reports.back().step) return;
    reports.clear();
  }
  reports.push_back({now, progress.step});
  while (reports.size() > kMaxReports || (reports.size() > 2 && now - reports.front().at > kWindow))
    reports.pop_front();
}

void WorkerSteps::OnTimes(int local_rank, const channel::StepTimes& times) {
  workers_[local_rank].times = times;
}

void WorkerSteps::Fill(int local_rank, TimePoint now, rendezvous::WorkerUse* use) const {
  const auto found = workers_.find(local_rank);
  if (found == workers_.end() || found->second.reports.empty()) return;
  const Worker& worker = found->second;
  const Report &first = worker.reports.front(), &last = worker.reports.back();
  use->step = last.step;
  use->samples = std::max<int64_t>(worker.samples, -1);
  use->quiet = now - last.at;
  if (last.step > first.step) use->step_time = (last.at - first.at) / (last.step - first.step);
  use->data_wait = FromSeconds(std::clamp(worker.times.data_seconds, 0.0, 1e6));
  use->exchange_wait = FromSeconds(std::clamp(worker.times.exchange_seconds, 0.0, 1e6));
  use->loss = worker.times.loss;
  use->learning_rate = worker.times.learning_rate;
  use->accuracy = worker.times.accuracy;
  use->epoch = Clamped(worker.times.epoch);
  use->epochs = Clamped(worker.times.epochs);
  use->total_steps = Clamped(worker.times.total_steps);
  use->run = AsPlainText(worker.times.run);
  if (use->run.size() > rendezvous::kMaxName) use->run.clear();
}

}  // namespace mtrun::launcher
