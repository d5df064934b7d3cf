// Builds the request for a file of a set: address, headers, and what the server has to prove. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "base/data_key.h"
#include "datasets/cache/fetch_messages.h"
#include "datasets/packed/data_url.h"

namespace mtrun::datasets {

/// How a TLS server's certificate is verified.
enum class Trust {
  kDataKey,  // it has the public key of mtrun's own server, which may get the derived bearer
  kSystem,   // by the system's authorities, and the host's name
};

/// Signs a request for s3 (AWS Signature Version 4).
struct S3Keys {
  std::string access_key, secret_key, region;
  bool operator==(const S3Keys&) const = default;
};

struct FetchRequest {
  std::string url;
  std::vector<std::pair<std::string, std::string>> headers = {};
  Trust trust = Trust::kSystem;
  std::string pin = "";  // "sha256//..." of the server's public key, with Trust::kDataKey
  bool direct = false;   // without proxy: it is this machine
  int64_t from = 0;      // offset of the first requested byte
  bool fresh = false;    // not from a cache on the way
  std::optional<S3Keys> s3_keys = {};
  bool operator==(const FetchRequest&) const = default;
};

class Origin {
 public:
  /// kInvalidArgument for an invalid URL or data key, or s3 without its keys.
  static absl::StatusOr<Origin> Make(const fetch::Open& open);

  /// The trust for the first request. Only an https server can prove to be mtrun's own, so the data key is
  /// tried first, and the system's authorities after that has failed.
  Trust first_trust() const;
  /// `file`: "train/shard_00000.safetensors".
  FetchRequest RequestFor(const std::string& file, Trust trust) const;
  /// Builds the request after a redirect to `location`, which followed `hops` others. kPermissionDenied: it
  /// must not be followed; the message says why.
  absl::StatusOr<FetchRequest> Redirected(const std::string& location, Trust trust, int hops) const;
  std::string UrlOf(const std::string& file) const;
  const DataUrl& url() const { return url_; }
  const fetch::Open& open() const { return open_; }

 private:
  Origin(fetch::Open open, DataUrl url) : open_(std::move(open)), url_(std::move(url)) {}
  void AddSecrets(Trust trust, FetchRequest& request) const;
  void AddressForS3(const std::string& file, FetchRequest& request) const;

  fetch::Open open_;
  std::optional<DataKey> key_;  // the data key in open_
  DataUrl url_;                 // as the user gave it
  DataUrl endpoint_;            // of s3: target of the requests
};

}  // namespace mtrun::datasets
