#include "launcher/pmi/client.h"

#include <errno.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace mtrun::launcher {
namespace {

// The first line, in the format of version 1, selects the protocol.
constexpr char kGreeting[] = "cmd=init pmi_version=2 pmi_subversion=0\n";
constexpr size_t kMaxGreeting = 1024;

}  // namespace

PmiClient::PmiClient(UniqueFd socket, std::string job, int rank, TimePoint deadline)
    : socket_(std::move(socket)), job_(std::move(job)), rank_(rank), deadline_(deadline) {}

absl::Status PmiClient::Send(std::string_view bytes) {
  // Messages are shorter than any socket buffer: if it is full the peer does not read.
  const ssize_t sent = send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  if (sent == static_cast<ssize_t>(bytes.size())) return absl::OkStatus();
  return absl::UnavailableError(sent < 0 ? ErrnoStatus(errno, "PMI2: send").message()
                                         : "PMI2: the server does not read");
}

absl::StatusOr<std::string> PmiClient::Receive(const std::string& question) {
  while (true) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline_ - MonotonicNow()).count();
    pollfd ready = {socket_.get(), POLLIN, 0};
    const int count = poll(&ready, 1, static_cast<int>(std::max<int64_t>(0, left)));
    if (count < 0 && errno == EINTR) continue;
    if (count == 0) return absl::DeadlineExceededError(absl::StrCat("PMI2: no answer to ", question));
    char bytes[4096];
    const ssize_t size = recv(socket_.get(), bytes, sizeof bytes, MSG_DONTWAIT);
    if (size > 0) return std::string(bytes, static_cast<size_t>(size));
    if (size < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (size < 0) return absl::UnavailableError(ErrnoStatus(errno, "PMI2: receive").message());
    return absl::UnavailableError(
        absl::StrCat("PMI2: the connection was closed instead of an answer to ", question));
  }
}

absl::StatusOr<PmiMessage> PmiClient::Ask(const PmiMessage& question) {
  MT_RETURN_IF_ERROR(Send(Encode(question)));
  while (true) {
    auto answer = answers_.Next();
    if (!answer.ok())
      return Annotate(answer.status(), absl::StrCat("PMI2: the answer to ", question.command));
    if (*answer) {
      if ((*answer)->command != question.command + "-response")
        return absl::InvalidArgumentError(absl::StrCat("PMI2: the answer is not to ", question.command));
      if ((*answer)->Field("rc") != "0")
        return absl::InternalError(absl::StrCat("PMI2: ", question.command, " was refused"));
      return **std::move(answer);
    }
    MT_ASSIGN_OR_RETURN(const std::string more, Receive(question.command));
    answers_.Append(more);
  }
}

absl::Status PmiClient::Begin() {
  MT_RETURN_IF_ERROR(Send(kGreeting));
  std::string line;
  while (line.empty() || line.back() != '\n') {
    if (line.size() > kMaxGreeting)
      return absl::InvalidArgumentError("PMI2: the answer to init is not complete");
    MT_ASSIGN_OR_RETURN(const std::string more, Receive("init"));
    line += more;
  }
  const std::string words = absl::StrCat(" ", line.substr(0, line.size() - 1), " ");
  if (!absl::StartsWith(words, " cmd=response_to_init ") || !absl::StrContains(words, " rc=0 ") ||
      !absl::StrContains(words, " pmi_version=2 "))
    return absl::InvalidArgumentError("PMI2: the answer to init is not that of version 2");
  return Ask({"fullinit", {{"pmijobid", job_}, {"pmirank", absl::StrCat(rank_)}, {"threaded", "FALSE"}}})
      .status();
}

absl::Status PmiClient::Put(const std::string& key, const std::string& value) {
  return Ask({"kvs-put", {{"key", key}, {"value", value}}}).status();
}

absl::Status PmiClient::Fence() { return Ask({"kvs-fence"}).status(); }

absl::StatusOr<std::string> PmiClient::Get(const std::string& key) {
  MT_ASSIGN_OR_RETURN(const PmiMessage answer,
                      Ask({"kvs-get", {{"jobid", job_}, {"srcid", "-1"}, {"key", key}}}));
  if (answer.Field("found") != "TRUE")
    return absl::NotFoundError(absl::StrCat("PMI2: there is no value for ", key));
  return std::string(answer.Field("value"));
}

absl::Status PmiClient::End() { return Ask({"finalize"}).status(); }

}  // namespace mtrun::launcher
