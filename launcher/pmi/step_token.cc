#include "launcher/pmi/step_token.h"

#include <stdlib.h>

#include <cstdint>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "base/value_or.h"
#include "launcher/pmi/client.h"

namespace mtrun::launcher {
namespace {

constexpr char kFd[] = "PMI_FD", kRank[] = "PMI_RANK", kJob[] = "PMI_JOBID";
constexpr char kKey[] = "mtrun-token";
// Slurm starts the tasks of a step together, but a node's prolog can take long.
constexpr Duration kPatience = std::chrono::seconds(60);

absl::StatusOr<int> Number(const EnvironmentMap& environment, const std::string& name) {
  const auto found = environment.find(name);
  int32_t number = 0;
  if (found != environment.end() && absl::SimpleAtoi(found->second, &number) && number >= 0) return number;
  return absl::InvalidArgumentError(
      absl::StrCat(name, found == environment.end() ? " is missing" : " is not a number"));
}

absl::StatusOr<std::string> Share(PmiClient& client, int rank) {
  MT_RETURN_IF_ERROR(client.Begin());
  std::string token;
  if (rank == 0) {
    token = MakeToken();
    MT_RETURN_IF_ERROR(client.Put(kKey, token));
  }
  MT_RETURN_IF_ERROR(client.Fence());
  if (rank != 0) {
    MT_ASSIGN_OR_RETURN(token, client.Get(kKey));
    MT_RETURN_IF_ERROR(Annotate(CheckToken(token), "PMI2: the token of rank 0"));
  }
  MT_RETURN_IF_ERROR(client.End());
  return token;
}

absl::Status WithAdvice(const absl::Status& status, Duration timeout) {
  std::string why(status.message());
  if (absl::IsDeadlineExceeded(status))
    absl::StrAppend(&why, " within ", HumanDuration(timeout),
                    ": every task of the step must ask, also one that has a token of its own");
  return absl::Status(
      status.code(),
      absl::StrCat("no token is set, and none could be shared over Slurm's key-value space: ", why,
                   "; set MTRUN_TOKEN or give --token_file FILE, the same on every node"));
}

}  // namespace

absl::StatusOr<PmiPlace> PmiPlaceOf(const EnvironmentMap& environment) {
  PmiPlace place;
  MT_ASSIGN_OR_RETURN(place.fd, Number(environment, kFd));
  MT_ASSIGN_OR_RETURN(place.rank, Number(environment, kRank));
  place.job = ValueOr(environment, kJob);
  if (place.job.empty() || place.job.find(';') != std::string::npos)
    return absl::InvalidArgumentError(absl::StrCat(kJob, " is missing or malformed"));
  return place;
}

absl::StatusOr<std::string> ShareTokenOfStep(UniqueFd socket, const PmiPlace& place, Duration timeout) {
  PmiClient client(std::move(socket), place.job, place.rank, MonotonicNow() + timeout);
  absl::StatusOr<std::string> token = Share(client, place.rank);
  return token.ok() ? std::move(token) : WithAdvice(token.status(), timeout);
}

absl::Status TakeTokenOfStep(const TokenSource& source, const EnvironmentMap& environment) {
  if (!environment.contains(kFd) || !source.file.empty()) return absl::OkStatus();
  if (!absl::IsNotFound(LoadToken(source, MissingToken::kRefuse, environment).status()))
    return absl::OkStatus();
  MT_ASSIGN_OR_RETURN(const PmiPlace place, PmiPlaceOf(environment));
  MT_ASSIGN_OR_RETURN(const std::string token, ShareTokenOfStep(UniqueFd(place.fd), place, kPatience));
  setenv(kTokenVariable, token.c_str(), 1);
  for (const char* name : {kFd, kRank, kJob, "PMI_SIZE"}) unsetenv(name);
  log::Info("using a token made for this step, shared over Slurm's key-value space (", kFd, ")");
  return absl::OkStatus();
}

}  // namespace mtrun::launcher
