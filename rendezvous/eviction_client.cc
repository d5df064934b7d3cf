#include "rendezvous/eviction_client.h"

#include <algorithm>
#include <future>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "rendezvous/unary_call.h"

namespace mtrun::rendezvous {
namespace {

/// Each of them once.
std::string Lines(const std::vector<EvictionAnswer>& answers, bool (*wanted)(const EvictionAnswer&),
                  bool with_endpoint) {
  std::vector<std::string> lines;
  for (const EvictionAnswer& answer : answers) {
    if (!wanted(answer)) continue;
    std::string line = with_endpoint ? absl::StrCat(answer.endpoint, ": ", answer.text) : answer.text;
    if (!answer.reached.ok()) line = std::string(answer.reached.message());  // it names the endpoint
    if (std::find(lines.begin(), lines.end(), line) == lines.end()) lines.push_back(std::move(line));
  }
  return absl::StrJoin(lines, "\n");
}

}  // namespace

absl::StatusOr<std::string> JudgeAnswers(const std::vector<EvictionAnswer>& answers) {
  const std::string done = Lines(
      answers, [](const EvictionAnswer& a) { return a.evicted; }, /*with_endpoint=*/false);
  if (!done.empty()) return done;
  std::string refused = Lines(
      answers, [](const EvictionAnswer& a) { return a.has_job; }, /*with_endpoint=*/true);
  if (refused.empty()) {
    refused = Lines(
        answers, [](const EvictionAnswer&) { return true; }, /*with_endpoint=*/true);
  }
  return absl::FailedPreconditionError(refused);
}

absl::StatusOr<std::string> AskToEvict(const std::vector<std::string>& endpoints,
                                       const Credentials& credentials, const std::string& job_id,
                                       const std::string& node) {
  wire::EvictRequest request;
  request.set_job_id(job_id);
  request.set_node(node);
  const auto tell = [&](const std::string& where) {
    const auto reply = AskAsPerson<wire::EvictReply>(
        where, credentials, [&](const std::string& endpoint, const std::string& token) {
          return Ask<wire::EvictRequest, wire::EvictReply>(endpoint, credentials.insecure, token,
                                                           kAnswerPatience, request,
                                                           &wire::Rendezvous::Stub::Evict);
        });
    EvictionAnswer answer{.endpoint = where, .reached = reply.status()};
    if (reply.ok()) {
      answer.evicted = reply->evicted();
      answer.has_job = reply->has_job();
      answer.text = reply->text();
    }
    return answer;
  };
  // A host that is off lets its caller wait.
  std::vector<std::future<EvictionAnswer>> told;
  for (const std::string& where : endpoints) told.push_back(std::async(std::launch::async, tell, where));
  std::vector<EvictionAnswer> answers;
  for (auto& answer : told) answers.push_back(answer.get());
  return JudgeAnswers(answers);
}

}  // namespace mtrun::rendezvous
