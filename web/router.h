// Which handler a request is for.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "web/message.h"

namespace mtrun::web {

/// Answers one request. May be called on any thread, also after the server is gone; only the first call
/// counts.
using Reply = std::function<void(Response)>;
/// Called on the server's thread: it must not wait for anything.
using Handler = std::function<void(Request, Reply)>;

inline constexpr char kEveryPath[] = "*";

struct Route {
  std::string method;  // one of GET is also asked for HEAD; the body is left out then
  std::string path;    // exactly this one; kEveryPath: all that no other route names
  Handler handler;
};

/// Constant after construction; pure.
class Router {
 public:
  explicit Router(std::vector<Route> routes) : routes_(std::move(routes)) {}

  struct Found {
    const Handler* handler = nullptr;  // lives as long as the router
    Response otherwise;                // without a handler: 404, or 405 with the methods that are allowed
  };
  Found Find(std::string_view method, std::string_view path) const;

 private:
  const std::vector<Route> routes_;
};

}  // namespace mtrun::web
