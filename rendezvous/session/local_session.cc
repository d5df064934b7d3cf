#include "rendezvous/session/local_session.h"

#include <asio/executor_work_guard.hpp>
#include <asio/io_context.hpp>
#include <asio/post.hpp>
#include <asio/steady_timer.hpp>
#include <future>
#include <thread>
#include <utility>

#include "base/log.h"
#include "base/posix.h"
#include "rendezvous/job/job_table.h"
#include "rendezvous/session/outbox.h"

namespace mtrun::rendezvous {
namespace {

class LocalSession final : public SessionClient {
 public:
  LocalSession(SessionOptions options, Handler handler)
      : options_(std::move(options)),
        handler_(std::move(handler)),
        work_(loop_.get_executor()),
        timer_(loop_),
        jobs_(JobMachine::Options{RandomBits(), MonotonicNow(), Duration::zero()}, options_.job.job_id) {
    asio::post(loop_, [this] {
      Step(StreamOpened{options_.job, {}});
      if (handler_.connected) handler_.connected(ServiceHost{true, {}});
    });
    thread_ = std::thread([this] { loop_.run(); });
  }
  ~LocalSession() override {
    work_.reset();
    loop_.stop();
    thread_.join();
  }

  void Send(const AgentEvent& event) override {
    asio::post(loop_, [this, event] {
      outbox_.Add(event);
      while (const auto next = outbox_.Next()) {
        const AgentSaid said = *next->message;
        outbox_.Acknowledge(next->sequence);
        Step(said);
      }
    });
  }

  bool Flush(Duration timeout) override {
    const auto done = std::make_shared<std::promise<void>>();
    asio::post(loop_, [done] { done->set_value(); });
    return done->get_future().wait_for(timeout) == std::future_status::ready;
  }

  void StampMainLoop() override {}              // its thread hangs together with this one
  void SetOrdinary(bool) override {}            // the only node is never silent
  void SetNote(const std::string&) override {}  // a job without an endpoint has no status for clients
  void TryToo(const std::vector<std::string>&) override {}

 private:
  template <typename What>
  void Step(const What& what) {
    Perform(jobs_.Step(options_.job.job_id, Event{options_.node_id, what}, MonotonicNow()));
    ArmTimer();
  }

  void Perform(const std::vector<JobTable::JobEffect>& effects) {
    for (const auto& [job_id, effect] : effects) {
      if (const auto* line = std::get_if<LogLine>(&effect)) {
        // The only node logs all of this itself.
        log::Debug("rendezvous ", job_id, ": ", line->text);
      } else if (const auto* send = std::get_if<rendezvous::Send>(&effect)) {
        outbox_.Observe(send->event);
        if (handler_.event) handler_.event(send->event);
      }
    }
  }

  void ArmTimer() {
    const std::optional<TimePoint> due = jobs_.NextDeadline();
    if (!due) {
      timer_.cancel();
      return;
    }
    timer_.expires_at(*due);
    timer_.async_wait([this](const std::error_code& error) {
      if (error) return;
      // This node is never silent, because it is in this process.
      Step(Heartbeat{});
      Perform(jobs_.Tick(MonotonicNow()));
      ArmTimer();
    });
  }

  // Constant after construction.
  const SessionOptions options_;
  const Handler handler_;
  asio::io_context loop_{1};
  std::thread thread_;
  // Used by the loop's thread only.
  asio::executor_work_guard<asio::io_context::executor_type> work_;
  asio::steady_timer timer_;
  JobTable jobs_;
  Outbox outbox_;
};

}  // namespace

std::unique_ptr<SessionClient> StartLocalSession(SessionOptions options, SessionClient::Handler handler) {
  return std::make_unique<LocalSession>(std::move(options), std::move(handler));
}

}  // namespace mtrun::rendezvous
