// The live page (--http): jobs, nodes and workers of the rendezvous service in a browser, its API and
// metrics. An ordinary client of that service with its own threads: no agent or service ever waits for it.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace mtrun::page {

struct PageOptions {
  std::string listen;                       // HOST:PORT as the user gave it; port 0: any free one
  std::vector<std::string> endpoints = {};  // candidate endpoints of the job's services
  bool insecure = false;                    // the services speak plain text
  std::string token = {};                   // for the services, "" if insecure
  std::string page_token = {};              // source of the passwords and (beyond loopback) the certificate
};

/// Thread-safe.
class Page {
 public:
  /// Starts the page and logs its address and, beyond loopback, its certificate's fingerprint.
  /// kInvalidArgument or kUnavailable say what is wrong with `listen`.
  static absl::StatusOr<std::unique_ptr<Page>> Start(const PageOptions& options);
  virtual ~Page() = default;

  virtual int port() const = 0;
  /// Replaces the candidate endpoints of the job's services.
  virtual void SetEndpoints(std::vector<std::string> endpoints) = 0;
};

}  // namespace mtrun::page
