// Downloads one file, which is kept beside its path until it is complete and has its SHA-256.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/status.h"

namespace mtrun::mtdata {

struct Download {
  std::string url;
  std::string path;
  std::string digits;  // that the file's SHA-256 begins with
};

/// Called about once a second: the bytes received so far, and what a retry waits for, "" if nothing. An error
/// ends the download; the part is kept.
using DownloadWatch = std::function<absl::Status(int64_t received, const std::string& trouble)>;

/// Continues `<path>.part` if an earlier call left it. Retries while network or server may recover. Follows
/// no redirects. kDataLoss: the file has another SHA-256, and is removed; kUnavailable: another process
/// downloads it; kFailedPrecondition: the server refuses; others: this disk, or `watch`.
absl::Status FetchFile(const Download& download, const DownloadWatch& watch);

}  // namespace mtrun::mtdata
