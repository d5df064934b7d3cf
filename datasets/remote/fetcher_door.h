// The fetcher's Unix socket: one fetcher per cache and machine, any number of clients. Not thread-safe.
#pragma once

#include <poll.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/json_lines.h"
#include "base/posix.h"
#include "datasets/cache/fetch_messages.h"

namespace mtrun::datasets {

class FetcherDoor {
 public:
  struct News {
    int64_t client = 0;
    std::optional<fetch::Message> message;  // nullopt: the client has disconnected
  };

  /// kAlreadyExists: another process is the fetcher of this cache; its lock is released when it exits.
  static absl::StatusOr<FetcherDoor> Open(const std::string& cache);
  FetcherDoor(FetcherDoor&&) = default;

  /// The descriptors to wait for.
  std::vector<pollfd> Waits() const;
  /// Returns what has arrived; never blocks.
  std::vector<News> Hear();
  /// Sends to a client; ignored if it has disconnected. A client that does not read is disconnected.
  void Send(int64_t client, const fetch::Message& message);
  size_t clients() const { return clients_.size(); }
  /// Stops accepting clients.
  void Close();

 private:
  FetcherDoor(UniqueFd lock, UniqueFd socket, std::string path)
      : lock_(std::move(lock)), socket_(std::move(socket)), path_(std::move(path)) {}
  struct Client {
    UniqueFd socket;
    LineBuffer lines;
  };
  bool Read(int64_t id, Client& client, std::vector<News>& news);

  UniqueFd lock_, socket_;
  std::string path_;
  std::map<int64_t, Client> clients_;
  int64_t next_ = 0;
};

}  // namespace mtrun::datasets
