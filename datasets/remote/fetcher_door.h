// The fetcher's end of its Unix socket: one fetcher for each cache and machine, clients that come and go.
// Not thread-safe.
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
    std::optional<fetch::Message> message;  // nothing: it has gone
  };

  /// kAlreadyExists: another process is the fetcher of this cache; its death frees the place.
  static absl::StatusOr<FetcherDoor> Open(const std::string& cache);
  FetcherDoor(FetcherDoor&&) = default;

  /// What to wait for.
  std::vector<pollfd> Waits() const;
  /// What has come; nobody is waited for.
  std::vector<News> Hear();
  /// To one that has gone it goes nowhere. A client that does not read loses its connection.
  void Send(int64_t client, const fetch::Message& message);
  size_t clients() const { return clients_.size(); }
  /// Nobody finds it any more.
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
