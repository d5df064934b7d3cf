// Finds the handler for a request.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "web/message.h"

namespace mtrun::web {

/// Answers one request. Can be called on any thread, even after the server is gone; only the first call
/// counts.
using Reply = std::function<void(Response)>;
/// Called on the server's thread, so it must not block.
using Handler = std::function<void(Request, Reply)>;

inline constexpr char kEveryPath[] = "*";

struct Route {
  std::string method;  // a GET route also answers HEAD, without the body
  std::string path;    // an exact path, or kEveryPath for all that no other route names
  Handler handler;
};

/// A table of routes. Constant after construction; pure.
class Router {
 public:
  explicit Router(std::vector<Route> routes) : routes_(std::move(routes)) {}

  struct Found {
    const Handler* handler = nullptr;  // valid as long as the router
    Response otherwise;                // if no handler matches: 404, or 405 with the allowed methods
  };
  Found Find(std::string_view method, std::string_view path) const;

 private:
  const std::vector<Route> routes_;
};

}  // namespace mtrun::web
