#include "trainers/input/read_pool.h"

#include <utility>

#include "base/status_macros.h"

namespace mtrun::trainers {

/// Guarded by the pool's mutex.
class ReadPool::Ticket {
 public:
  explicit Ticket(Job what) : job(std::move(what)) {}
  bool done() const { return finished == (dropped ? begun : job.parts); }

  const Job job;
  int64_t begun = 0, finished = 0;  // numbers of parts
  bool announced = false, dropped = false;
  int64_t failed = -1;  // the first part that failed
  absl::Status failure;
};

ReadPool::ReadPool(int threads) {
  MT_CHECK(threads >= 1) << threads;
  for (int i = 0; i < threads; ++i) threads_.emplace_back([this] { Run(); });
}

ReadPool::~ReadPool() {
  {
    const MutexLock lock(mutex_);
    closing_ = true;
    for (const TicketPtr& ticket : jobs_) ticket->dropped = true;
    jobs_.clear();
  }
  changed_.NotifyAll();
  for (std::thread& thread : threads_) thread.join();
}

ReadPool::TicketPtr ReadPool::Add(Job job, bool first) {
  auto ticket = std::make_shared<Ticket>(std::move(job));
  if (ticket->job.parts == 0) return ticket;
  {
    const MutexLock lock(mutex_);
    first ? jobs_.push_front(ticket) : jobs_.push_back(ticket);
  }
  changed_.NotifyAll();
  return ticket;
}

absl::Status ReadPool::Wait(const TicketPtr& ticket) {
  const MutexLock lock(mutex_);
  while (!ticket->done()) changed_.Wait(mutex_);
  if (ticket->dropped) return absl::CancelledError("the job was dropped");
  return ticket->failure;
}

void ReadPool::Drop(const TicketPtr& ticket) {
  {
    const MutexLock lock(mutex_);
    ticket->dropped = true;
    std::erase(jobs_, ticket);
  }
  changed_.NotifyAll();
}

/// Announces a job, even if others precede it, to give the disk more time. Returns false if there is none.
bool ReadPool::Announce() {
  for (const TicketPtr& ticket : jobs_) {
    if (std::exchange(ticket->announced, true) || !ticket->job.announce) continue;
    const TicketPtr kept = ticket;
    mutex_.Unlock();
    kept->job.announce();
    mutex_.Lock();
    return true;
  }
  return false;
}

bool ReadPool::WorkOnOne() {
  if (jobs_.empty()) return false;
  const TicketPtr ticket = jobs_.front();
  const int64_t part = ticket->begun++;
  if (ticket->begun == ticket->job.parts) jobs_.pop_front();
  mutex_.Unlock();
  absl::Status status = ticket->job.work(part);
  mutex_.Lock();
  if (!status.ok() && (ticket->failed < 0 || part < ticket->failed)) {
    ticket->failed = part;
    ticket->failure = std::move(status);
  }
  ++ticket->finished;
  if (ticket->done()) changed_.NotifyAll();
  return true;
}

void ReadPool::Run() {
  const MutexLock lock(mutex_);
  while (!closing_) {
    if (!Announce() && !WorkOnOne()) changed_.Wait(mutex_);
  }
}

}  // namespace mtrun::trainers
