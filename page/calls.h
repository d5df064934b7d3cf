// Calls from the page to a job's services: log tails and control. They block on their own threads.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/clock.h"
#include "base/mutex.h"
#include "page/task_queue.h"
#include "rendezvous/wire/control_call.h"
#include "rendezvous/wire/log_call.h"
#include "web/router.h"

namespace mtrun::page {

struct ServiceAccess {
  bool insecure = false;
  std::string token = {};
};

/// A parsed query like "job=a&rank=3&attempt=x&out=10&err=0". kInvalidArgument says what is wrong.
struct LogQuestion {
  std::string job_id;
  rendezvous::LogRequest read;
};
absl::StatusOr<LogQuestion> ReadLogQuestion(const std::string& query);
/// Parses a body like {"job": "a", "node": "node2", "checkpoint": true} of a call of the kind `what`.
/// kInvalidArgument says what is wrong.
absl::StatusOr<rendezvous::ControlQuestion> ReadControlQuestion(const rendezvous::ControlKind& what,
                                                                const std::string& body);

/// Makes the calls. Thread-safe. Control calls have their own threads, so that log reads from unreachable
/// services cannot delay a stop.
class Calls {
 public:
  explicit Calls(ServiceAccess access) : access_(std::move(access)) {}

  /// Replies 200 with {"attempt", "out", "err", "out_end", "err_end", "more"} and at most 64 KiB of text.
  void ReadLog(std::vector<std::string> endpoints, const std::string& query, web::Reply reply);
  /// A call that has waited this long is dropped, because its operator has been told that it failed.
  static constexpr Duration kStale = std::chrono::seconds(3);
  /// Replies 200 with {"done": the action taken}, 409 if the services refuse, 503 if the call was not made.
  void Control(std::vector<std::string> endpoints, const rendezvous::ControlKind& what,
               const std::string& body, web::Reply reply);

 private:
  /// Puts the service that answered last first, because each unreachable one costs a call its timeout.
  std::vector<std::string> InOrder(std::vector<std::string> endpoints) const;
  absl::StatusOr<rendezvous::LogPart> ReadAnywhere(const std::vector<std::string>& endpoints,
                                                   const LogQuestion& question);

  const ServiceAccess access_;
  mutable Mutex mu_;
  std::string answered_ ABSL_GUARDED_BY(mu_);  // the endpoint that answered last
  TaskQueue reads_, controls_;                 // declared last: their tasks use the members above
};

}  // namespace mtrun::page
