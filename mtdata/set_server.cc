#include "mtdata/set_server.h"

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/log.h"
#include "base/sha256.h"
#include "base/status_macros.h"
#include "datasets/files/progress.h"
#include "mtdata/set_table.h"
#include "web/file_answer.h"

namespace mtrun::mtdata {
namespace {

constexpr char kMetricsType[] = "text/plain; version=0.0.4; charset=utf-8";
constexpr size_t kMaxTarget = 200;  // in a line of the log

/// Escapes text from clients, so that it cannot look like another log line.
std::string Printable(const std::string& text) {
  std::string printable;
  for (const char c : text.substr(0, kMaxTarget))
    printable += absl::ascii_isgraph(static_cast<unsigned char>(c)) ? c : '?';
  return printable;
}

bool Shows(const web::Request& request, const std::string& bearer) {
  const auto shown = request.headers.find("authorization");
  return shown != request.headers.end() && ConstantTimeEqual(shown->second, "Bearer " + bearer);
}

}  // namespace

absl::StatusOr<std::shared_ptr<SetServer>> SetServer::Make(const SetServerOptions& options) {
  MT_RETURN_IF_ERROR(OpenRoot(options.root).status());
  return std::shared_ptr<SetServer>(new SetServer(options));
}

web::Service SetServer::ServiceOf(const std::shared_ptr<SetServer>& server) {
  web::Service service;
  service.routes = {{"GET", web::kEveryPath, [server](const web::Request& request, const web::Reply& reply) {
                       reply(server->Answer(request));
                     }}};
  service.limits.connections = server->options_.connections;
  service.limits.body_bytes = 0;
  service.limits.request_patience = std::chrono::seconds(10);
  service.limits.idle_patience = std::chrono::minutes(2);
  service.tls = server->options_.tls;
  service.threads = server->options_.threads;
  service.exchanged = [server](const web::Exchange& exchange) { server->Count(exchange); };
  return service;
}

bool SetServer::MayRead(const web::Request& request) const { return Shows(request, options_.bearer); }

bool SetServer::MayReadMetrics(const web::Request& request) const {
  return MayRead(request) || (!options_.metrics_bearer.empty() && Shows(request, options_.metrics_bearer));
}

web::Response SetServer::Answer(const web::Request& request) const {
  if (request.path == "/healthz") return {.body = "ok\n"};
  const bool metrics = request.path == "/metrics";
  if (!(metrics ? MayReadMetrics(request) : MayRead(request))) {
    web::Response refused = web::StatusResponse(401);
    refused.headers.emplace_back("WWW-Authenticate", "Bearer");
    return refused;
  }
  if (metrics) return {.content_type = kMetricsType, .body = Metrics()};
  if (request.path == "/")
    return {.content_type = "application/json", .body = JsonOf(FindSets(options_.root))};
  const auto names = web::SplitPath(request.path);
  if (!names || !IsFileOfSet(*names)) return web::StatusResponse(404);
  absl::StatusOr<web::OpenedFile> file = Open(*names);
  if (absl::IsNotFound(file.status())) return web::StatusResponse(404);
  if (!file.ok()) {  // a client treats 404 as final, but retries after a 503
    log::Warning(file.status().message());
    return web::StatusResponse(503);
  }
  const char* type = names->back() == datasets::kIndexFile ? "application/json" : "application/octet-stream";
  web::Response response = web::AnswerFile(request, file->facts, type);
  if (response.file) response.file->fd = std::make_shared<const UniqueFd>(std::move(file->fd));
  return response;
}

/// Opens the root for each request, because an import may have replaced it.
absl::StatusOr<web::OpenedFile> SetServer::Open(const std::vector<std::string>& names) const {
  const absl::StatusOr<UniqueFd> root = OpenRoot(options_.root);
  if (!root.ok()) return absl::UnavailableError(root.status().message());
  return web::OpenBelow(root->get(), names);
}

void SetServer::Count(const web::Exchange& exchange) {
  const int first = exchange.status / 100;
  if (first >= 0 && first < 6) ++by_class_[first];
  bytes_ += exchange.bytes;
  broken_ += exchange.complete ? 0 : 1;
  strangers_ += exchange.status == 401 ? 1 : 0;
  if (options_.access_log) log::Info(LogLine(exchange));
}

std::string SetServer::Metrics() const {
  std::string text;
  const auto add = [&](const char* name, const char* kind, const char* help, double value) {
    absl::StrAppendFormat(&text, "# HELP %s %s\n# TYPE %s %s\n%s %.15g\n", name, help, name, kind, name,
                          value);
  };
  text += "# HELP mtdata_requests_total Requests answered.\n# TYPE mtdata_requests_total counter\n";
  for (int first = 2; first < 6; ++first)
    absl::StrAppendFormat(&text, "mtdata_requests_total{status=\"%dxx\"} %d\n", first,
                          by_class_[first].load());
  add("mtdata_sent_bytes_total", "counter", "Bytes sent in responses.", static_cast<double>(bytes_));
  add("mtdata_broken_answers_total", "counter",
      "Responses cut off because the client disconnected or was too slow.", static_cast<double>(broken_));
  add("mtdata_refused_total", "counter", "Requests refused because they had no valid key.",
      static_cast<double>(strangers_));
  const web::HttpServer* const http = http_;
  add("mtdata_connections", "gauge", "Open connections.",
      static_cast<double>(http != nullptr ? http->connections() : 0));
  add("mtdata_uptime_seconds", "gauge", "Seconds since the server started.",
      ToSeconds(MonotonicNow() - started_));
  return text;
}

std::string LogLine(const web::Exchange& exchange) {
  const std::string what = exchange.method.empty()
                               ? "no request"
                               : absl::StrCat(Printable(exchange.method), " ", Printable(exchange.target));
  return absl::StrFormat("%s %s %d %s bytes %.3f s%s", exchange.peer, what, exchange.status,
                         datasets::WithCommas(exchange.bytes), exchange.seconds,
                         exchange.complete ? "" : " (incomplete)");
}

}  // namespace mtrun::mtdata
