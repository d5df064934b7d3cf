#include "base/worker_client.h"

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>

#include "absl/strings/str_cat.h"
#include "base/json_lines.h"
#include "base/status_macros.h"
#include "base/unix_address.h"

namespace mtrun {
namespace {

constexpr int kDataKeySeconds = 10;
constexpr size_t kMaxDataKeyLine = 4096;

absl::StatusOr<UniqueFd> ConnectUnix(const std::string& name) {
  absl::StatusOr<UnixAddress> address = ParseUnixAddress(name);
  MT_RETURN_IF_ERROR(Annotate(address.status(), "MTRUN_SOCKET"));
  UniqueFd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!fd.valid()) return ErrnoStatus(errno, "create a socket");
  if (connect(fd.get(), address->get(), address->size) != 0)
    return ErrnoStatus(errno, absl::StrCat("connect to the agent at ", name,
                                           " (if no mtrun started this program, unset MTRUN_SOCKET)"));
  if (!IsOfThisUser(fd.get()))
    return absl::PermissionDeniedError(absl::StrCat("a program of another user is listening at ", name));
  return fd;
}

}  // namespace

absl::StatusOr<std::unique_ptr<WorkerClient>> WorkerClient::Connect(const std::string& socket_path,
                                                                    const channel::Hello& hello,
                                                                    Handler handler) {
  MT_ASSIGN_OR_RETURN(UniqueFd fd, ConnectUnix(socket_path));
  std::unique_ptr<WorkerClient> client(new WorkerClient(std::move(fd), std::move(handler)));
  MT_RETURN_IF_ERROR(client->Send(hello));
  client->reader_ = std::thread([client = client.get()] { client->ReadLoop(); });
  return client;
}

WorkerClient::~WorkerClient() {
  shutdown(fd_.get(), SHUT_RDWR);
  if (reader_.joinable()) reader_.join();
}

absl::Status WorkerClient::Send(const channel::WorkerMessage& message) {
  const std::string line = channel::Encode(message);
  const MutexLock lock(send_mu_);
  std::string_view rest = line;
  while (!rest.empty()) {
    // MSG_NOSIGNAL: if the agent is gone, return an error instead of raising SIGPIPE.
    const ssize_t n = send(fd_.get(), rest.data(), rest.size(), MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return ErrnoStatus(errno, "send to the agent");
    rest.remove_prefix(static_cast<size_t>(n));
  }
  return absl::OkStatus();
}

void WorkerClient::Enter(const channel::Generation& generation) {
  const MutexLock lock(mu_);
  generation_ = generation;
}

absl::Status WorkerClient::Set(std::string_view key, std::string_view value) {
  channel::StoreSet set{std::string(key), std::string(value)};
  {
    const MutexLock lock(mu_);
    set.generation = generation_;
  }
  return Send(set);
}

absl::StatusOr<std::map<std::string, std::string>> WorkerClient::Wait(const std::vector<std::string>& keys) {
  int64_t aborts = 0;
  channel::Generation generation;
  {
    const MutexLock lock(mu_);
    aborts = aborts_;
    generation = generation_;
  }
  std::map<std::string, std::string> values;
  size_t asked = 0;
  do {
    const auto first = keys.begin() + static_cast<ptrdiff_t>(asked);
    asked += std::min(keys.size() - asked, channel::kMaxStoreKeys);
    const std::vector<std::string> piece(first, keys.begin() + static_cast<ptrdiff_t>(asked));
    MT_ASSIGN_OR_RETURN(auto some, WaitForSome(piece, generation, aborts));
    values.merge(some);
  } while (asked < keys.size());
  return values;
}

void WorkerClient::Abort(std::string_view why) {
  const MutexLock lock(mu_);
  ++aborts_;
  last_abort_ = absl::AbortedError(std::string(why));
  if (stopped_.ok()) stopped_ = last_abort_;
  changed_.NotifyAll();
}

void WorkerClient::ResetAbort() {
  const MutexLock lock(mu_);
  if (!closed_) stopped_ = absl::OkStatus();
}

absl::StatusOr<std::map<std::string, std::string>> WorkerClient::WaitForSome(
    const std::vector<std::string>& keys, const channel::Generation& generation, int64_t aborts) {
  int64_t id = 0;
  {
    const MutexLock lock(mu_);
    MT_RETURN_IF_ERROR(stopped_);
    if (aborts_ != aborts) return last_abort_;
    id = ++last_id_;
    replies_[id] = std::nullopt;
  }
  absl::Status sent = Send(channel::StoreWait{id, keys, generation});
  const MutexLock lock(mu_);
  if (!sent.ok()) {
    replies_.erase(id);
    return sent;
  }
  while (!replies_[id].has_value() && !closed_ && aborts_ == aborts) changed_.Wait(mu_);
  std::optional<channel::StoreValues> reply = std::move(replies_[id]);
  replies_.erase(id);
  // ResetAbort may have run before this thread woke up; the abort that ended this wait still counts.
  if (!reply.has_value()) return stopped_.ok() ? last_abort_ : stopped_;
  if (!reply->error.empty()) return absl::AbortedError(reply->error);
  return std::move(reply->values);
}

void WorkerClient::ReadLoop() {
  const absl::Status why = ReadUntilClosed();
  {
    const MutexLock lock(mu_);
    closed_ = true;
    stopped_ = why;
    changed_.NotifyAll();
  }
  handler_.closed(why);
}

absl::Status WorkerClient::ReadUntilClosed() {
  LineBuffer lines;
  std::array<char, 1 << 16> piece;
  while (true) {
    const ssize_t n = recv(fd_.get(), piece.data(), piece.size(), 0);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return ErrnoStatus(errno, "read from the agent");
    if (n == 0) return absl::UnavailableError("the agent closed the channel");
    MT_RETURN_IF_ERROR(lines.Append(std::string_view(piece.data(), static_cast<size_t>(n))));
    while (std::optional<std::string> line = lines.Next()) {
      MT_ASSIGN_OR_RETURN(const channel::AgentMessage message, channel::DecodeAgentMessage(*line));
      Deliver(message);
    }
  }
}

void WorkerClient::Deliver(const channel::AgentMessage& message) {
  if (const auto* reply = std::get_if<channel::StoreValues>(&message)) {
    const MutexLock lock(mu_);
    // The reply is dropped if its Wait was aborted.
    if (const auto found = replies_.find(reply->id); found != replies_.end()) found->second = *reply;
    changed_.NotifyAll();
    return;
  }
  handler_.message(message);
}

absl::StatusOr<std::string> AskAgentForDataKey(const std::string& socket) {
  const absl::StatusOr<UniqueFd> agent = ConnectUnix(socket);
  if (!agent.ok()) return "";  // inherited from a job that has ended, or on another machine
  const timeval patience{.tv_sec = kDataKeySeconds, .tv_usec = 0};
  setsockopt(agent->get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  const std::string request = channel::Encode(channel::WorkerMessage(channel::DataKeyRequest{}));
  if (send(agent->get(), request.data(), request.size(), MSG_NOSIGNAL) < 0) return "";
  LineBuffer lines(kMaxDataKeyLine);
  std::array<char, 1024> bytes;
  while (true) {
    const ssize_t size = recv(agent->get(), bytes.data(), bytes.size(), 0);
    if (size < 0 && errno == EINTR) continue;
    if (size < 0 && errno == EAGAIN) {
      return absl::UnavailableError(absl::StrCat("the mtrun at ", socket,
                                                 " (MTRUN_SOCKET) has not answered for ", kDataKeySeconds,
                                                 " s, so the key for data servers is unknown"));
    }
    if (size <= 0) return "";  // it does not know the request
    MT_RETURN_IF_ERROR(lines.Append({bytes.data(), static_cast<size_t>(size)}));
    const std::optional<std::string> line = lines.Next();
    if (!line) continue;
    MT_ASSIGN_OR_RETURN(const channel::AgentMessage answer, channel::DecodeAgentMessage(*line));
    const auto* const reply = std::get_if<channel::DataKeyReply>(&answer);
    return reply == nullptr ? "" : reply->key;
  }
}

}  // namespace mtrun
