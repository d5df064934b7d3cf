// Serves files of the packed sets below one folder to clients that have the key.
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
  std::string bearer;               // the credential that opens everything
  std::string metrics_bearer = "";  // the credential for /metrics alone, "" for none
  std::shared_ptr<web::TlsContext> tls = nullptr;
  int threads = 1;
  size_t connections = 4096;
  bool access_log = true;
};

/// Answers GET and HEAD of /<set>/index.json and /<set>/<split>/shard_*.safetensors (with ranges and entity
/// tags), / (the sets, as JSON), /metrics, and /healthz, the only path that needs no key. Thread-safe.
class SetServer {
 public:
  /// Returns kNotFound if the folder does not exist.
  static absl::StatusOr<std::shared_ptr<SetServer>> Make(const SetServerOptions& options);
  /// Returns the service for web::HttpServer::Start. The service keeps `server` alive.
  static web::Service ServiceOf(const std::shared_ptr<SetServer>& server);

  web::Response Answer(const web::Request& request) const;
  void Count(const web::Exchange& exchange);
  /// Returns the metrics in Prometheus' text format.
  std::string Metrics() const;
  /// Sets the server whose connections the metrics count. Can be called on any thread, even while serving.
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

/// Returns a line for the access log: "10.78.0.2 GET /photos/index.json 200 12,345 bytes 0.004 s".
std::string LogLine(const web::Exchange& exchange);

}  // namespace mtrun::mtdata
