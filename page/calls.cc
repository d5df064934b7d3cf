#include "page/calls.h"

#include <algorithm>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/json_text.h"
#include "base/status_macros.h"
#include "base/value_or.h"
#include "page/gate.h"
#include "page/request_parts.h"
#include "rendezvous/client/control_client.h"
#include "rendezvous/client/log_client.h"

namespace mtrun::page {
namespace {

constexpr char kCrowded[] = "too many calls wait already; try again";
constexpr char kStaleCall[] = "it had to wait too long and was not done; try again";
constexpr size_t kMaxBody = 4096;

absl::Status ReadNumber(const std::map<std::string, std::string>& form, const std::string& name,
                        int64_t least, int64_t most, int64_t* number) {
  const auto found = form.find(name);
  if (found == form.end()) return absl::OkStatus();
  if (absl::SimpleAtoi(found->second, number) && *number >= least && *number <= most) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(name, " must be a number from ", least, " to ", most));
}

/// A page's user is known only by the password.
rendezvous::Requester ByOf(const char* who) {
  rendezvous::Requester by = rendezvous::ThisProcess();
  by.user = absl::StrCat("the page's ", who, " as ", by.user);
  return by;
}

}  // namespace

absl::StatusOr<LogQuestion> ReadLogQuestion(const std::string& query) {
  const auto form = ParseForm(query);
  if (!form) return absl::InvalidArgumentError("the query cannot be read");
  LogQuestion question{ValueOr(*form, "job"), {.attempt = ValueOr(*form, "attempt"), .by = ByOf("viewer")}};
  int64_t rank = -1;
  constexpr int64_t kMaxRank = int64_t{rendezvous::kMaxNodes} * rendezvous::kMaxWorkersPerNode;
  MT_RETURN_IF_ERROR(ReadNumber(*form, "rank", 0, kMaxRank, &rank));
  if (rank < 0) return absl::InvalidArgumentError("rank is missing");
  question.read.rank = static_cast<int>(rank);
  MT_RETURN_IF_ERROR(ReadNumber(*form, "out", -1, INT64_MAX, &question.read.out));
  MT_RETURN_IF_ERROR(ReadNumber(*form, "err", -1, INT64_MAX, &question.read.err));
  return question;
}

absl::StatusOr<rendezvous::ControlQuestion> ReadControlQuestion(const rendezvous::ControlKind& what,
                                                                const std::string& body) {
  MT_ASSIGN_OR_RETURN(const nlohmann::json json, ParseJsonObject(body, kMaxBody));
  std::string job_id, node;
  bool checkpoint = false;
  for (const auto& [name, value] : json.items()) {
    if (name == "job" && value.is_string()) {
      job_id = value;
    } else if (name == "node" && value.is_string()) {
      node = value;
    } else if (name == "checkpoint" && value.is_boolean()) {
      checkpoint = value;
    } else {
      return absl::InvalidArgumentError(
          absl::StrCat("\"", name, "\" is not taken: job and node are texts, checkpoint is true or false"));
    }
  }
  const bool wants_node = std::holds_alternative<rendezvous::DrainCall>(what) ||
                          std::holds_alternative<rendezvous::EvictCall>(what);
  if (wants_node && node.empty()) return absl::InvalidArgumentError("node is missing");
  return rendezvous::ControlQuestion{Filled(what, node, checkpoint), job_id, ByOf("operator")};
}

std::vector<std::string> Calls::InOrder(std::vector<std::string> endpoints) const {
  const MutexLock lock(mu_);
  std::stable_partition(endpoints.begin(), endpoints.end(),
                        [this](const std::string& where)
                            ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) { return where == answered_; });
  return endpoints;
}

absl::StatusOr<rendezvous::LogPart> Calls::ReadAnywhere(const std::vector<std::string>& endpoints,
                                                        const LogQuestion& question) {
  std::string answered;
  const auto part = rendezvous::ReadLogWith(endpoints, access_.insecure, access_.token, question.job_id,
                                            question.read, &answered);
  const MutexLock lock(mu_);
  if (part.ok()) answered_ = answered;
  return part;
}

void Calls::ReadLog(std::vector<std::string> endpoints, const std::string& query, web::Reply reply) {
  const absl::StatusOr<LogQuestion> question = ReadLogQuestion(query);
  if (!question.ok()) return reply(Refusal(400, std::string(question.status().message())));
  const bool added = reads_.Add([this, endpoints = std::move(endpoints), question = *question, reply] {
    const absl::StatusOr<rendezvous::LogPart> part = ReadAnywhere(InOrder(endpoints), question);
    if (!part.ok()) return reply(Refusal(409, std::string(part.status().message())));
    reply(JsonResponse({{"attempt", part->attempt},
                        {"out", part->out},
                        {"err", part->err},
                        {"out_end", part->out_end},
                        {"err_end", part->err_end},
                        {"more", part->more}}));
  });
  if (!added) reply(Refusal(503, kCrowded));
}

void Calls::Control(std::vector<std::string> endpoints, const rendezvous::ControlKind& what,
                    const std::string& body, web::Reply reply) {
  const absl::StatusOr<rendezvous::ControlQuestion> question = ReadControlQuestion(what, body);
  if (!question.ok()) return reply(Refusal(400, std::string(question.status().message())));
  const TimePoint asked = MonotonicNow();
  const bool added =
      controls_.Add([this, endpoints = std::move(endpoints), question = *question, reply, asked] {
        if (MonotonicNow() - asked >= kStale) return reply(Refusal(503, kStaleCall));
        const auto done = rendezvous::ControlWith(endpoints, access_.insecure, access_.token, question);
        if (!done.ok()) return reply(Refusal(409, std::string(done.status().message())));
        reply(JsonResponse({{"done", *done}}));
      });
  if (!added) reply(Refusal(503, kCrowded));
}

}  // namespace mtrun::page
