// How a file of a set is asked for at its server: address, headers, and what the server has to prove. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "datasets/cache/fetch_messages.h"
#include "datasets/data_url.h"

namespace mtrun::datasets {

/// What a TLS server's certificate is judged by.
enum class Trust {
  kDataKey,  // it is derived from the same data key: mtrun's own server, which may be shown the derived
             // bearer
  kSystem,   // the system's authorities, and the host's name
};

struct FetchRequest {
  std::string url;
  std::vector<std::pair<std::string, std::string>> headers = {};
  Trust trust = Trust::kSystem;
  bool direct = false;  // no proxy: it is this machine
  int64_t from = 0;     // the first byte that is wanted
  bool fresh = false;   // no answer out of a cache on the way
  bool operator==(const FetchRequest&) const = default;
};

class Origin {
 public:
  /// kInvalidArgument for a URL that is none, or s3 without its keys.
  static absl::StatusOr<Origin> Make(const fetch::Open& open);

  /// Mtrun's own server or another one? Only a https server can prove it, so the first answer is asked for
  /// with the data key, and without it after it has failed to.
  Trust first_trust() const;
  /// `file`: "train/shard_00000.safetensors". `seconds`: since 1970, for s3.
  FetchRequest RequestFor(const std::string& file, Trust trust, int64_t seconds) const;
  /// After a redirect to `location`, `hops` redirects having come before it. kPermissionDenied with the
  /// reason: it is not followed.
  absl::StatusOr<FetchRequest> Redirected(const std::string& location, Trust trust, int hops) const;
  std::string UrlOf(const std::string& file) const;
  const DataUrl& url() const { return url_; }
  const fetch::Open& open() const { return open_; }

 private:
  Origin(fetch::Open open, DataUrl url) : open_(std::move(open)), url_(std::move(url)) {}
  void AddBearer(Trust trust, FetchRequest& request) const;
  void SignForS3(const std::string& file, int64_t seconds, FetchRequest& request) const;

  fetch::Open open_;
  DataUrl url_;       // as it was named
  DataUrl endpoint_;  // of s3: where its requests go
};

}  // namespace mtrun::datasets
