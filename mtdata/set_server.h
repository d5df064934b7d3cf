// What a server of packed sets answers: files of the sets below one folder, to those who have the key.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/clock.h"
#include "web/http_server.h"
#include "web/static_path.h"

namespace mtrun::mtdata {

struct SetServerOptions {
  std::string root;
  std::string bearer;               // what clients must show
  std::string metrics_bearer = "";  // what suffices for /metrics, "" for nothing else
  std::shared_ptr<const web::TlsContext> tls = nullptr;
  int threads = 1;
  size_t connections = 4096;
  bool access_log = true;
};

/// GET and HEAD of /<set>/index.json and /<set>/<split>/shard_*.safetensors with ranges and entity tags; /:
/// the sets, as JSON; /metrics; /healthz, which alone needs no key. Thread-safe.
class SetServer {
 public:
  /// kNotFound: there is no such folder.
  static absl::StatusOr<std::shared_ptr<SetServer>> Make(const SetServerOptions& options);
  /// To start with web::HttpServer::StartService. The server holds on to this.
  static web::Service ServiceOf(const std::shared_ptr<SetServer>& server);

  web::Response Answer(const web::Request& request) const;
  void Count(const web::Exchange& exchange);
  /// In Prometheus' text format.
  std::string Metrics() const;
  /// Whose connections the metrics tell; any thread, also while it serves.
  void set_http(const web::HttpServer* http) { http_ = http; }

 private:
  explicit SetServer(SetServerOptions options) : options_(std::move(options)) {}
  absl::StatusOr<web::OpenedFile> Open(const std::vector<std::string>& names) const;
  bool MayRead(const web::Request& request) const;
  bool MayReadMetrics(const web::Request& request) const;

  const SetServerOptions options_;
  const TimePoint started_ = MonotonicNow();
  std::atomic<const web::HttpServer*> http_ = nullptr;
  std::atomic<int64_t> by_class_[6] = {};  // requests by the first digit of their status
  std::atomic<int64_t> bytes_ = 0, broken_ = 0, strangers_ = 0;
};

/// "10.78.0.2 GET /photos/index.json 200 12,345 bytes 0.004 s".
std::string LogLine(const web::Exchange& exchange);

}  // namespace mtrun::mtdata
