// Calls of the page to the services of a job: log tails and control. Their waiting is done on threads of
// their own.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/clock.h"
#include "base/mutex.h"
#include "nlohmann/json.hpp"
#include "page/task_queue.h"
#include "rendezvous/control_choice.h"
#include "rendezvous/log_call.h"
#include "web/router.h"

namespace mtrun::page {

struct ServiceAccess {
  bool insecure = false;
  std::string token = {};
};

/// What a query like "job=a&rank=3&attempt=x&out=10&err=0" asks for. kInvalidArgument says what is wrong.
struct LogQuestion {
  std::string job_id;
  rendezvous::LogRequest read;
};
absl::StatusOr<LogQuestion> ReadLogQuestion(const std::string& query);
/// What {"job": "a", "node": "node2", "checkpoint": true} asks for. kInvalidArgument says what is wrong.
absl::StatusOr<rendezvous::ControlQuestion> ReadControlQuestion(const std::string& call,
                                                                const std::string& body);

web::Response JsonResponse(const nlohmann::json& json);

/// Thread-safe. Control calls have threads of their own: who reads logs from services that are away must not
/// hold up a stop.
class Calls {
 public:
  explicit Calls(ServiceAccess access) : access_(std::move(access)) {}

  /// 200 with {"attempt", "out", "err", "out_end", "err_end", "more"}: 64 KiB of text at most.
  void ReadLog(std::vector<std::string> endpoints, const std::string& query, web::Reply reply);
  /// A call that has waited so long is not made any more: its operator has been told that it was not.
  static constexpr Duration kStale = std::chrono::seconds(3);
  /// 200 with {"done": what happens now}, 409 where the services refuse, 503 where it is not made.
  void Control(std::vector<std::string> endpoints, const std::string& call, const std::string& body,
               web::Reply reply);

 private:
  /// The service that answered last comes first: one that is away costs each call its patience.
  std::vector<std::string> InOrder(std::vector<std::string> endpoints) const;
  absl::StatusOr<rendezvous::LogPart> ReadAnywhere(const std::vector<std::string>& endpoints,
                                                   const LogQuestion& question);

  const ServiceAccess access_;
  mutable Mutex mu_;
  std::string answered_ ABSL_GUARDED_BY(mu_);  // the endpoint
  TaskQueue reads_, controls_;                 // last: what runs there uses the rest
};

}  // namespace mtrun::page
