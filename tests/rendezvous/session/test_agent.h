// An agent for tests: a session client whose events go to a queue that the test waits on.
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "gtest/gtest.h"
#include "rendezvous/session/session_client.h"

namespace mtrun::rendezvous {

inline constexpr std::chrono::seconds kTestPatience{30};  // far beyond any expected time

class TestAgent {
 public:
  using Starter = std::unique_ptr<SessionClient> (*)(SessionOptions, SessionClient::Handler);
  TestAgent(std::string node_id, SessionOptions options, Starter start = &SessionClient::Start)
      : node_id_(std::move(node_id)) {
    options.node_id = node_id_;
    SessionClient::Handler handler;
    handler.event = [this](const ServiceEvent& event) {
      Push([&] {
        if (const auto* assigned = std::get_if<Assigned>(&event)) seen_ = assigned->assignment().generation;
        events_.push_back(event);
      });
    };
    handler.connected = [this](const ServiceHost&) { Push([&] { ++connected_; }); };
    handler.disconnected = [this](const std::string& why, Duration) {
      Push([&] { disconnected_.push_back(why); });
    };
    handler.failed = [this](absl::Status status) { Push([&] { failure_ = std::move(status); }); };
    session_ = start(std::move(options), std::move(handler));
  }

  SessionClient& session() { return *session_; }
  const std::string& node_id() const { return node_id_; }
  /// Ends the session as the death of the process does.
  void Kill() { session_.reset(); }

  void Offer(int workers = 1, std::optional<Generation> holds = std::nullopt) {
    rendezvous::Offer offer;
    offer.node_id = offer.host = node_id_;
    offer.address = "127.0.0.1";
    offer.workers = workers;
    offer.master_port = 40000;
    offer.holds = holds;
    session_->Send(OfferSent{offer, Seen()});
  }

  /// Returns the next event of type T and drops others before it.
  template <typename T>
  std::optional<T> Next() {
    std::unique_lock<std::mutex> lock(mu_);
    const auto deadline = std::chrono::steady_clock::now() + kTestPatience;
    while (true) {
      while (!events_.empty()) {
        const ServiceEvent event = std::move(events_.front());
        events_.pop_front();
        if (const T* found = std::get_if<T>(&event)) return *found;
      }
      if (changed_.wait_until(lock, deadline) == std::cv_status::timeout) return std::nullopt;
    }
  }
  Generation NextGeneration() {
    const auto assigned = Next<Assigned>();
    EXPECT_TRUE(assigned.has_value()) << node_id_ << " was not assigned";
    return assigned ? assigned->assignment().generation : Generation{};
  }

  bool AwaitConnections(int count) {
    return Await([&] { return connected_ >= count; });
  }
  bool AwaitDisconnected() {
    return Await([&] { return !disconnected_.empty(); });
  }
  /// Waits until one of the reasons contains `part`.
  bool AwaitDisconnected(std::string_view part) {
    return Await([&] {
      for (const std::string& why : disconnected_) {
        if (why.find(part) != std::string::npos) return true;
      }
      return false;
    });
  }
  bool HasBeenDisconnected() {
    const std::lock_guard<std::mutex> lock(mu_);
    return !disconnected_.empty();
  }
  bool HasFailed() {
    const std::lock_guard<std::mutex> lock(mu_);
    return failure_.has_value();
  }
  std::optional<absl::Status> AwaitFailure() {
    Await([&] { return failure_.has_value(); });
    const std::lock_guard<std::mutex> lock(mu_);
    return failure_;
  }
  template <typename T>
  bool Has() {
    const std::lock_guard<std::mutex> lock(mu_);
    for (const ServiceEvent& event : events_) {
      if (std::holds_alternative<T>(event)) return true;
    }
    return false;
  }

 private:
  Generation Seen() {
    const std::lock_guard<std::mutex> lock(mu_);
    return seen_;
  }
  template <typename Change>
  void Push(const Change& change) {
    const std::lock_guard<std::mutex> lock(mu_);
    change();
    changed_.notify_all();
  }
  template <typename Condition>
  bool Await(const Condition& condition) {
    std::unique_lock<std::mutex> lock(mu_);
    return changed_.wait_for(lock, kTestPatience, condition);
  }

  const std::string node_id_;
  std::mutex mu_;
  std::condition_variable changed_;
  std::deque<ServiceEvent> events_;
  Generation seen_;
  int connected_ = 0;
  std::vector<std::string> disconnected_;
  std::optional<absl::Status> failure_;
  std::unique_ptr<SessionClient> session_;  // last member, because no handler runs after its destruction
};

}  // namespace mtrun::rendezvous
