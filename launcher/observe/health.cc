#include "launcher/observe/health.h"

#include <asio.hpp>
#include <utility>

#include "absl/strings/str_cat.h"

namespace mtrun::launcher {

absl::StatusOr<std::unique_ptr<web::HttpServer>> StartHealthServer(asio::io_context& io, int port,
                                                                   std::function<bool()> takes_part) {
  // The reply comes from the agent's loop, which proves that the loop runs.
  const web::Handler answer = [&io, keeps_running = asio::make_work_guard(io)](const web::Request&,
                                                                               const web::Reply& reply) {
    asio::post(io, [reply] { reply({.content_type = "text/plain", .body = "alive\n"}); });
  };
  const web::Handler readiness = [&io, takes_part = std::move(takes_part)](const web::Request&,
                                                                           const web::Reply& reply) {
    asio::post(io, [takes_part, reply] {
      const bool ready = takes_part();
      reply({.status = ready ? 200 : 503,
             .content_type = "text/plain",
             .body = ready ? "ready\n" : "not in a generation\n"});
    });
  };
  absl::StatusOr<std::unique_ptr<web::HttpServer>> http = web::HttpServer::Start(
      "", port, {.routes = {{"GET", "/readyz", readiness}, {"GET", web::kEveryPath, answer}}});
  if (!http.ok())
    return absl::UnavailableError(absl::StrCat("the health endpoint cannot ", http.status().message()));
  return http;
}

}  // namespace mtrun::launcher
