// libjpeg's object for reading, with errors as absl::Status: libjpeg leaves a failed call by longjmp.
// Internal to this folder. Not thread-safe.
#pragma once

#include <csetjmp>
#include <cstdio>  // jpeglib.h forgets it
#include <string_view>

#include <jpeglib.h>

#include "absl/status/status.h"

namespace mtrun::datasets {

class JpegReader {
 public:
  /// REQUIRES: `file` outlives this.
  explicit JpegReader(std::string_view file);
  JpegReader(const JpegReader&) = delete;
  JpegReader& operator=(const JpegReader&) = delete;
  ~JpegReader();

  jpeg_decompress_struct& library() { return library_; }

  /// Runs calls of libjpeg. kDataLoss with libjpeg's reason, also if a warning says that pixels are lost.
  /// REQUIRES: no object in `body` with a destructor is alive during a call: longjmp skips destructors.
  template <typename Body>
  absl::Status Call(Body body) {
    if (setjmp(jump_) != 0) return Failure();
    body();
    return damaged_ ? Failure() : absl::OkStatus();
  }

 private:
  static void OnError(j_common_ptr library);
  static void OnMessage(j_common_ptr library, int level);
  static void OnProgress(j_common_ptr library);
  absl::Status Failure() const;

  jpeg_decompress_struct library_ = {};
  jpeg_error_mgr errors_ = {};
  jpeg_progress_mgr progress_ = {};
  std::jmp_buf jump_;
  bool damaged_ = false, too_many_scans_ = false;
  char message_[JMSG_LENGTH_MAX] = {};
};

}  // namespace mtrun::datasets
