// A service on loopback for tests of the session client, and options for its agents.
#pragma once

#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "rendezvous/service/service.h"
#include "tests/rendezvous/session/test_agent.h"
#include "tests/support/port.h"
#include "tests/support/token.h"

namespace mtrun::rendezvous {

class SessionTest : public ::testing::Test {
 protected:
  void StartService(bool insecure = true, const std::string& token = support::kToken) {
    ServiceOptions options;
    options.listen = endpoint();
    options.insecure = insecure;
    options.token = token;
    options.recovery_window = kTestPatience;  // a busy machine may take long to come back
    auto service = Service::Start(options);
    ASSERT_TRUE(service.ok()) << service.status();
    service_ = *std::move(service);
  }
  void RestartService() {
    service_.reset();
    StartService();
  }
  SessionOptions Options(int min_nodes, int max_nodes, int restarts = 0) const {
    SessionOptions options;
    options.endpoint = endpoint();
    options.insecure = true;
    options.job.job_id = "job";
    options.job.min_nodes = min_nodes;
    options.job.max_nodes = max_nodes;
    options.job.max_restarts = restarts;
    options.job.last_call = std::chrono::milliseconds(100);
    options.job.heartbeat_interval = std::chrono::milliseconds(250);
    options.job.heartbeats_missed =
        20;  // a busy machine must not lose nodes; the state machine's tests cover silence
    return options;
  }
  /// Options of a single node that shows its token.
  SessionOptions SecureOptions(const std::string& token = support::kToken) const {
    SessionOptions options = Options(1, 1);
    options.insecure = false;
    options.token = token;
    return options;
  }
  std::string endpoint() const { return absl::StrCat("127.0.0.1:", port_); }

  const int port_ = support::FreePort();  // a stopped service is restarted there
  std::unique_ptr<Service> service_;
};

}  // namespace mtrun::rendezvous
