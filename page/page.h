// The live page (--http): jobs, nodes and workers of the rendezvous service in a browser, its API and
// metrics. A client of that service like any other, on threads of its own: wherever it runs, no agent and no
// service waits for it.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace mtrun::page {

struct PageOptions {
  std::string listen;                       // HOST:PORT as the user gave it; port 0: any free one
  std::vector<std::string> endpoints = {};  // where services of the job may be
  bool insecure = false;                    // those speak plain text
  std::string token = {};                   // of those, "" with insecure
  std::string page_token = {};  // passwords and (beyond loopback) the certificate are derived from it
};

/// Thread-safe.
class Page {
 public:
  /// Says in the log where it is, and beyond loopback the fingerprint of its certificate. kInvalidArgument,
  /// kUnavailable: what is wrong with `listen`.
  static absl::StatusOr<std::unique_ptr<Page>> Start(const PageOptions& options);
  virtual ~Page() = default;

  virtual int port() const = 0;
  /// Where services of the job may be from now on.
  virtual void SetEndpoints(std::vector<std::string> endpoints) = 0;
};

}  // namespace mtrun::page
