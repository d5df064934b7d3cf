#include "rendezvous/client/log_client.h"

#include "absl/strings/str_cat.h"
#include "rendezvous/client/job_finder.h"
#include "rendezvous/client/service_trail.h"
#include "rendezvous/client/unary_call.h"
#include "rendezvous/wire/codec.h"

namespace mtrun::rendezvous {
namespace {

absl::StatusOr<LogPart> ReadAt(const std::string& where, bool insecure, const std::string& token,
                               const wire::LogsRequest& request, std::string* elsewhere) {
  MT_ASSIGN_OR_RETURN(const Endpoint endpoint, ParseEndpoint(where));
  const auto reply = Ask<wire::LogsRequest, wire::LogsReply>(
      ToText(endpoint), insecure, token, kAnswerPatience, request, &wire::Rendezvous::Stub::Logs);
  if (!reply.ok()) return reply.status();
  *elsewhere = reply->elsewhere();
  absl::StatusOr<LogPart> part = DecodeLogPart(reply->part());
  if (part.ok() && part->error.empty()) return part;
  const std::string why = part.ok() ? part->error : std::string(part.status().message());
  return absl::FailedPreconditionError(absl::StrCat(where, ": ", why));
}

}  // namespace

absl::StatusOr<LogPart> ReadLogWith(const std::vector<std::string>& endpoints, bool insecure,
                                    const std::string& token, const std::string& job_id,
                                    const LogRequest& request, std::string* answered) {
  const wire::LogsRequest question = EncodeLogsRequest(job_id, request);
  std::vector<absl::Status> silent, refused;
  ServiceTrail trail(endpoints);
  for (std::string where = trail.Next(); !where.empty(); where = trail.Next()) {
    std::string elsewhere;
    const absl::StatusOr<LogPart> part = ReadAt(where, insecure, token, question, &elsewhere);
    trail.Follow(where, elsewhere);
    if (part.ok() && answered != nullptr) *answered = where;
    if (part.ok()) return part;
    (absl::IsFailedPrecondition(part.status()) ? refused : silent).push_back(part.status());
  }
  // A service that answers knows more than one that does not.
  return AllErrors(refused.empty() ? silent : refused);
}

std::string LogFollower::OnPart(const LogPart& part, TimePoint now) {
  const bool again = begun() && part.attempt != next_.attempt;
  heard_ = now;
  next_.attempt = part.attempt;
  next_.out = part.out_end;
  next_.err = part.err_end;
  return again ? absl::StrCat("rank ", next_.rank, " was started again: ", part.attempt) : "";
}

absl::Status LogFollower::OnError(const absl::Status& error, TimePoint now) const {
  return heard_ && now - *heard_ < kPatience ? absl::OkStatus() : error;
}

}  // namespace mtrun::rendezvous
