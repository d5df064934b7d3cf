// A web server of one packed set with chosen files, for tests that link mt_web. Plain HTTP on loopback.
#pragma once

#include <atomic>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "tests/support/program.h"
#include "web/http_server.h"

namespace mtrun::support {

/// Serves the set in `folder` as /data. Before Open() it has only the named files and answers other
/// requests with the status `refusal`. Thread-safe.
class GatedServer {
 public:
  GatedServer(std::string folder, std::set<std::string> files, int refusal = 503)
      : folder_(std::move(folder)), files_(std::move(files)), refusal_(refusal) {
    auto server = web::HttpServer::Start(
        "127.0.0.1", 0,
        {.routes = {{"GET", web::kEveryPath, [this](const web::Request& request, const web::Reply& reply) {
                       reply(Answer(request));
                     }}}});
    EXPECT_TRUE(server.ok()) << server.status();
    if (server.ok()) server_ = *std::move(server);
  }
  std::string url() const { return absl::StrCat("http://127.0.0.1:", server_->port(), "/data"); }
  void Open() { open_ = true; }
  void RefuseWith(int status) { refusal_ = status; }
  /// From now on serves nothing, like another program at its port.
  void CloseWith(int status) {
    refusal_ = status;
    closed_ = true;
  }
  /// Returns the number of refused requests.
  int refused() const { return refused_; }
  int given() const { return given_; }
  /// Returns how often each file was served.
  std::map<std::string, int> GivenFiles() const {
    const std::lock_guard lock(mu_);
    return given_files_;
  }

 private:
  web::Response Answer(const web::Request& request) {
    const std::string file = request.path.substr(std::string("/data/").size());
    if (closed_) return Refuse();
    if (!std::filesystem::exists(folder_ + "/" + file)) return web::StatusResponse(404);
    if (open_ || files_.count(file) != 0) {
      ++given_;
      const std::lock_guard lock(mu_);
      ++given_files_[file];
      return {.body = ReadText(folder_ + "/" + file)};
    }
    return Refuse();
  }
  web::Response Refuse() {
    ++refused_;
    return web::StatusResponse(refusal_);
  }

  const std::string folder_;
  const std::set<std::string> files_;
  std::atomic<bool> open_ = false, closed_ = false;
  std::atomic<int> refusal_, refused_ = 0, given_ = 0;
  mutable std::mutex mu_;
  std::map<std::string, int> given_files_;   // guarded by mu_
  std::unique_ptr<web::HttpServer> server_;  // last: it uses the members above
};

}  // namespace mtrun::support
