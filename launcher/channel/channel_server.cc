#include "launcher/channel/channel_server.h"

#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <asio.hpp>
#include <deque>
#include <map>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/json_lines.h"
#include "base/log.h"
#include "base/posix.h"
#include "base/status_macros.h"
#include "base/unix_address.h"

namespace mtrun::launcher {
namespace {

using Socket = asio::local::stream_protocol::socket;

constexpr size_t kMaxWaitingBytes = 64 << 20;  // for a worker that does not read
constexpr int kReadsInARow = 16;               // before the other connections get their turn
constexpr auto kPauseWithoutDescriptors = std::chrono::milliseconds(100);
constexpr int kReadsAtTheEnd = 4096;  // for a worker that cannot add anything
constexpr int kAcceptedATurn = 64;    // any local user can connect; other users are closed
constexpr int kTurnsAtTheEnd = SOMAXCONN / kAcceptedATurn + 1;  // the whole accept queue

/// One worker's connection; lives as long as an operation on it is pending.
class Connection : public std::enable_shared_from_this<Connection> {
 public:
  using OnLine = std::function<absl::Status(Connection&, const std::string&)>;
  Connection(Socket socket, int64_t id, OnLine on_line)
      : id_(id), socket_(std::move(socket)), on_line_(std::move(on_line)) {}

  int64_t id() const { return id_; }
  int local_rank = -1;  // set by Hello

  void Read() {
    // Bytes are read only in handlers, so that ReadAvailable can be called at any time.
    socket_.async_wait(Socket::wait_read, [self = shared_from_this()](std::error_code error) {
      if (error) return self->Close();
      self->ReadAvailable(kReadsInARow);
      if (self->open_) self->Read();
    });
  }

  void ReadAvailable(int most_reads) {
    for (int i = 0; i < most_reads && open_; ++i) {
      const ssize_t size = recv(socket_.native_handle(), bytes_.data(), bytes_.size(), MSG_DONTWAIT);
      if (size < 0 && errno == EINTR) continue;
      if (size < 0 && errno == EAGAIN) return;
      if (size <= 0) return Close();
      const absl::Status status = Take({bytes_.data(), static_cast<size_t>(size)});
      if (status.ok()) continue;
      log::Warning("worker channel: ", status.message(), "; the connection of local rank ", local_rank,
                   " is closed");
      return Close();
    }
  }

  void Send(std::string line) {
    if (!open_) return;
    waiting_bytes_ += line.size();
    if (waiting_bytes_ > kMaxWaitingBytes) {
      log::Warning("worker channel: local rank ", local_rank,
                   " does not read its messages; its connection is closed");
      return Close();
    }
    waiting_.push_back(std::move(line));
    if (waiting_.size() == 1) Write();
  }

  void Close() {
    open_ = false;
    std::error_code ignored;
    socket_.close(ignored);
  }

 private:
  absl::Status Take(std::string_view bytes) {
    MT_RETURN_IF_ERROR(lines_.Append(bytes));
    while (const auto line = lines_.Next()) {
      if (!open_) break;
      MT_RETURN_IF_ERROR(on_line_(*this, *line));
    }
    return absl::OkStatus();
  }

  void Write() {
    const auto buffer = asio::buffer(waiting_.front());
    asio::async_write(socket_, buffer, [self = shared_from_this()](std::error_code error, size_t size) {
      if (error) return self->Close();
      self->waiting_bytes_ -= size;
      self->waiting_.pop_front();
      if (!self->waiting_.empty() && self->open_) self->Write();
    });
  }

  const int64_t id_;
  Socket socket_;
  const OnLine on_line_;
  bool open_ = true;
  LineBuffer lines_;
  std::array<char, 16 << 10> bytes_;
  std::deque<std::string> waiting_;
  size_t waiting_bytes_ = 0;
};

absl::StatusOr<UniqueFd> Listen(const std::string& name) {
  MT_ASSIGN_OR_RETURN(const UnixAddress address, ParseUnixAddress(name));
  UniqueFd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket.valid() || bind(socket.get(), address.get(), address.size) != 0 ||
      listen(socket.get(), SOMAXCONN) != 0) {
    return ErrnoStatus(errno, absl::StrCat("listen on ", name));
  }
  return socket;
}

class Server : public ChannelServer {
 public:
  Server(asio::io_context& io, std::string name, UniqueFd listener, OnMessage on_message, GetDataKey data_key)
      : io_(io),
        name_(std::move(name)),
        listener_(io, listener.Release()),
        pause_(io),
        on_message_(std::move(on_message)),
        data_key_(std::move(data_key)) {
    Accept();
  }

  ~Server() override {
    DisconnectAll();
    std::error_code ignored;
    listener_.close(ignored);
  }

  const std::string& name() const override { return name_; }

  void SendToRank(int local_rank, const channel::AgentMessage& message) override {
    const auto found = by_rank_.find(local_rank);
    if (found != by_rank_.end()) SendToConnection(found->second, message);
  }

  void SendToConnection(int64_t connection, const channel::AgentMessage& message) override {
    const auto found = connections_.find(connection);
    if (found == connections_.end()) return;
    if (const auto alive = found->second.lock()) alive->Send(channel::Encode(message));
  }

  void ReadRest(int local_rank) override {
    for (int turn = 0; turn < kTurnsAtTheEnd && AcceptSome() == Accepted::kMore; ++turn) {
    }
    for (const auto& connection : Living()) {
      if (connection->local_rank == local_rank || connection->local_rank < 0)
        connection->ReadAvailable(kReadsAtTheEnd);
    }
  }

  void Disconnect(int local_rank) override {
    for (const auto& connection : Living()) {
      if (connection->local_rank == local_rank) connection->Close();
    }
    by_rank_.erase(local_rank);
  }

  void DisconnectAll() override {
    for (const auto& connection : Living()) connection->Close();
    connections_.clear();
    by_rank_.clear();
  }

 private:
  void Accept() {
    listener_.async_wait(asio::posix::stream_descriptor::wait_read, [this](std::error_code error) {
      if (error) return;
      if (AcceptSome() != Accepted::kNoDescriptors) return Accept();
      pause_.expires_after(
          kPauseWithoutDescriptors);  // the socket stays readable: a pause keeps the loop from spinning
      pause_.async_wait([this](std::error_code stopped) {
        if (!stopped) Accept();
      });
    });
  }

  enum class Accepted {
    kAll,
    kMore,           // possibly
    kNoDescriptors,  // this process is out of descriptors
  };
  Accepted AcceptSome() {
    for (int i = 0; i < kAcceptedATurn; ++i) {
      const int fd = accept4(listener_.native_handle(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
      if (fd < 0 && (errno == EINTR || errno == ECONNABORTED)) continue;
      if (fd < 0) return errno == EAGAIN ? Accepted::kAll : Accepted::kNoDescriptors;
      if (IsOfThisUser(fd)) {
        Serve(fd);
      } else {
        close(fd);
      }
    }
    return Accepted::kMore;
  }

  /// Returns a copy because handlers may change `connections_`.
  std::vector<std::shared_ptr<Connection>> Living() const {
    std::vector<std::shared_ptr<Connection>> living;
    for (const auto& [id, connection] : connections_) {
      if (auto alive = connection.lock()) living.push_back(std::move(alive));
    }
    return living;
  }

  void Serve(int fd) {
    std::erase_if(connections_, [](const auto& item) { return item.second.expired(); });
    const auto connection = std::make_shared<Connection>(
        Socket(io_, asio::local::stream_protocol(), fd), next_id_++,
        [this](Connection& from, const std::string& line) { return OnLine(from, line); });
    connections_[connection->id()] = connection;
    connection->Read();
  }

  absl::Status OnLine(Connection& from, const std::string& line) {
    MT_ASSIGN_OR_RETURN(const channel::WorkerMessage message, channel::DecodeWorkerMessage(line));
    if (std::holds_alternative<channel::DataKeyRequest>(message)) {
      from.Send(channel::Encode(channel::DataKeyReply{data_key_()}));
      return absl::OkStatus();
    }
    if (const auto* hello = std::get_if<channel::Hello>(&message)) {
      if (hello->protocol != channel::kProtocolVersion) {
        return absl::InvalidArgumentError(absl::StrCat("a worker speaks version ", hello->protocol,
                                                       " of the protocol, this mtrun ",
                                                       channel::kProtocolVersion));
      }
      from.local_rank = hello->local_rank;
      by_rank_[from.local_rank] = from.id();
    } else if (from.local_rank < 0) {
      return absl::InvalidArgumentError("a worker sent a message before its hello");
    }
    on_message_(from.id(), from.local_rank, message);
    return absl::OkStatus();
  }

  asio::io_context& io_;
  const std::string name_;
  asio::posix::stream_descriptor listener_;
  asio::steady_timer pause_;
  const OnMessage on_message_;
  const GetDataKey data_key_;
  int64_t next_id_ = 1;
  std::map<int64_t, std::weak_ptr<Connection>> connections_;
  std::map<int, int64_t> by_rank_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<ChannelServer>> ChannelServer::Start(asio::io_context& io,
                                                                    OnMessage on_message,
                                                                    GetDataKey data_key) {
  const std::string name = absl::StrFormat("@mtrun-%016x", RandomBits());
  MT_ASSIGN_OR_RETURN(UniqueFd listener, Listen(name));
  return std::make_unique<Server>(io, name, std::move(listener), std::move(on_message), std::move(data_key));
}

}  // namespace mtrun::launcher
