// Limits the size of files that a test writes: a write beyond it stores what fits, and fails.
#pragma once

#include <sys/resource.h>

#include <cstdint>

#include "base/file_limit.h"

namespace mtrun::support {

class FileSizeLimit {
 public:
  explicit FileSizeLimit(uint64_t bytes) {
    SurviveSizeLimit();
    getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit limit{.rlim_cur = bytes, .rlim_max = before_.rlim_max};
    setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FileSizeLimit() { setrlimit(RLIMIT_FSIZE, &before_); }
  FileSizeLimit(const FileSizeLimit&) = delete;

 private:
  rlimit before_ = {};
};

}  // namespace mtrun::support
