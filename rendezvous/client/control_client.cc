#include "rendezvous/client/control_client.h"

#include <pwd.h>
#include <unistd.h>

#include <algorithm>
#include <future>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/posix.h"
#include "rendezvous/client/service_trail.h"
#include "rendezvous/client/unary_call.h"
#include "rendezvous/wire/codec.h"

namespace mtrun::rendezvous {
namespace {

void AddOnce(const std::string& line, std::vector<std::string>* lines) {
  if (std::find(lines->begin(), lines->end(), line) == lines->end()) lines->push_back(line);
}

UnaryCall<wire::ControlRequest, wire::ControlReply> MethodOf(const ControlKind& what) {
  if (std::holds_alternative<DrainCall>(what)) return &wire::Rendezvous::Stub::Drain;
  if (std::holds_alternative<StacksCall>(what)) return &wire::Rendezvous::Stub::Stacks;
  return std::holds_alternative<EvictCall>(what) ? &wire::Rendezvous::Stub::Evict
                                                 : &wire::Rendezvous::Stub::Stop;
}

}  // namespace

absl::StatusOr<std::string> JudgeAnswers(const std::vector<ControlAnswer>& answers) {
  std::vector<std::string> done, of_job, all;
  for (const ControlAnswer& answer : answers) {
    std::string line = absl::StrCat(answer.endpoint, ": ", answer.text);
    if (!answer.reached.ok()) line = std::string(answer.reached.message());  // it names the endpoint
    if (answer.done) AddOnce(answer.text, &done);
    if (answer.has_job) AddOnce(line, &of_job);
    AddOnce(line, &all);
  }
  if (std::string told = absl::StrJoin(done, "\n"); !told.empty()) return told;
  return absl::FailedPreconditionError(absl::StrJoin(of_job.empty() ? all : of_job, "\n"));
}

Requester ThisProcess() {
  const passwd* user = getpwuid(geteuid());
  return {user != nullptr ? std::string(user->pw_name) : absl::StrCat("uid ", geteuid()), HostName(),
          getpid(), ""};
}

absl::StatusOr<std::string> AskToControl(const std::vector<std::string>& endpoints,
                                         const Credentials& credentials, const ControlQuestion& question) {
  MT_ASSIGN_OR_RETURN(const std::string token, TokenOf(credentials));
  return ControlWith(endpoints, credentials.insecure, token, question);
}

absl::StatusOr<std::string> ControlWith(const std::vector<std::string>& endpoints, bool insecure,
                                        const std::string& token, const ControlQuestion& question) {
  const wire::ControlRequest request = EncodeControl(question);
  const auto tell = [&](const std::string& where) {
    const absl::StatusOr<Endpoint> endpoint = ParseEndpoint(where);
    if (!endpoint.ok()) return ControlAnswer{.endpoint = where, .reached = endpoint.status()};
    const auto reply = Ask<wire::ControlRequest, wire::ControlReply>(
        ToText(*endpoint), insecure, token, kAnswerPatience, request, MethodOf(question.what));
    ControlAnswer answer{.endpoint = where, .reached = reply.status()};
    if (reply.ok()) {
      answer.done = reply->done();
      answer.has_job = reply->has_job();
      answer.text = reply->text();
      answer.elsewhere = reply->elsewhere();
    }
    return answer;
  };
  std::vector<ControlAnswer> answers;
  ServiceTrail trail(endpoints);
  for (auto round = trail.Rest(); !round.empty(); round = trail.Rest()) {
    // In parallel, because a host that is off makes its caller wait.
    std::vector<std::future<ControlAnswer>> told;
    for (const std::string& where : round) told.push_back(std::async(std::launch::async, tell, where));
    for (auto& answer : told) {
      answers.push_back(answer.get());
      trail.Follow(answers.back().endpoint, answers.back().elsewhere);
    }
  }
  return JudgeAnswers(answers);
}

}  // namespace mtrun::rendezvous
