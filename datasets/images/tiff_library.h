// libtiff's object for reading from memory, with errors as absl::Status. Internal to this folder.
// Not thread-safe; any number of objects on any threads.
#pragma once

#include <cstdarg>
#include <string>
#include <string_view>

#include <tiffio.h>

#include "absl/status/status.h"

namespace mtrun::datasets {

class TiffReader {
 public:
  /// REQUIRES: `file` outlives this.
  explicit TiffReader(std::string_view file);
  TiffReader(const TiffReader&) = delete;
  TiffReader& operator=(const TiffReader&) = delete;
  ~TiffReader();

  /// Returns nullptr if the file cannot be opened.
  TIFF* tiff() const { return tiff_; }
  /// Returns the value of a 16-bit tag, or its default.
  uint16_t Short(uint32_t tag) const;
  /// Counts errors and warnings as damage from now on: those about pixels mean that some are lost.
  void ExpectPixels() {
    strict_ = true;
    damaged_ = false;
    message_.clear();
  }
  /// Returns true after damage to pixels (ExpectPixels) or to the directory.
  bool damaged() const { return damaged_; }
  /// kDataLoss with libtiff's reason, if it gave one.
  absl::Status Failure() const;

 private:
  static tmsize_t OnRead(thandle_t handle, void* out, tmsize_t size);
  static tmsize_t OnWrite(thandle_t handle, void* bytes, tmsize_t size);
  static toff_t OnSeek(thandle_t handle, toff_t offset, int whence);
  static toff_t OnSize(thandle_t handle);
  static int OnClose(thandle_t handle);
  static int OnError(TIFF* tiff, void* self, const char* module, const char* format, va_list arguments);
  static int OnWarning(TIFF* tiff, void* self, const char* module, const char* format, va_list arguments);
  /// Keeps the first message.
  void OnDamage(const char* format, va_list arguments);

  const std::string_view file_;
  uint64_t at_ = 0;
  bool strict_ = false, damaged_ = false;
  std::string message_;  // the first one
  TIFF* tiff_ = nullptr;
};

}  // namespace mtrun::datasets
