#include "datasets/images/tiff_library.h"

#include <algorithm>
#include <cstdio>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace mtrun::datasets {
namespace {

constexpr tmsize_t kMaxAllocation = tmsize_t{1} << 31;

TiffReader& Reader(void* self) { return *static_cast<TiffReader*>(self); }

/// Returns true for messages that say nothing of the image: a tag that only its own program knows, and an
/// older order of LZW's codes, which libtiff reads.
bool IsHarmless(std::string_view format) {
  return format.starts_with("Defined set_") || format.starts_with("Old-style LZW codes");
}

}  // namespace

TiffReader::TiffReader(std::string_view file) : file_(file) {
  TIFFOpenOptions* options = TIFFOpenOptionsAlloc();
  MT_CHECK(options != nullptr) << "no memory for libtiff";
  TIFFOpenOptionsSetMaxSingleMemAlloc(options, kMaxAllocation);
  TIFFOpenOptionsSetErrorHandlerExtR(options, OnError, this);
  TIFFOpenOptionsSetWarningHandlerExtR(options, OnWarning, this);
  tiff_ = TIFFClientOpenExt("TIFF", "rm", this, OnRead, OnWrite, OnSeek, OnClose, OnSize, nullptr, nullptr,
                            options);
  TIFFOpenOptionsFree(options);
}

TiffReader::~TiffReader() {
  if (tiff_ != nullptr) TIFFClose(tiff_);
}

uint16_t TiffReader::Short(uint32_t tag) const {
  uint16_t value = 0;
  TIFFGetFieldDefaulted(tiff_, tag, &value);
  return value;
}

absl::Status TiffReader::Failure() const {
  return absl::DataLossError(
      absl::StrCat("truncated or damaged TIFF", message_.empty() ? "" : ": ", message_));
}

tmsize_t TiffReader::OnRead(thandle_t handle, void* out, tmsize_t size) {
  TiffReader& self = Reader(handle);
  const uint64_t begin = std::min<uint64_t>(self.at_, self.file_.size());
  const uint64_t count = std::min<uint64_t>(self.file_.size() - begin, static_cast<uint64_t>(size));
  std::memcpy(out, self.file_.data() + begin, count);
  self.at_ = begin + count;
  return static_cast<tmsize_t>(count);
}

tmsize_t TiffReader::OnWrite(thandle_t, void*, tmsize_t) { return -1; }

toff_t TiffReader::OnSeek(thandle_t handle, toff_t offset, int whence) {
  TiffReader& self = Reader(handle);
  const uint64_t from = whence == SEEK_SET ? 0 : whence == SEEK_CUR ? self.at_ : self.file_.size();
  return self.at_ = from + offset;
}

toff_t TiffReader::OnSize(thandle_t handle) { return Reader(handle).file_.size(); }

int TiffReader::OnClose(thandle_t) { return 0; }

void TiffReader::OnDamage(const char* format, va_list arguments) {
  if (IsHarmless(format)) return;
  damaged_ = true;
  if (!message_.empty()) return;
  char text[256];
  std::vsnprintf(text, sizeof text, format, arguments);
  message_ = text;
}

int TiffReader::OnError(TIFF*, void* self, const char*, const char* format, va_list arguments) {
  Reader(self).OnDamage(format, arguments);
  return 1;
}

int TiffReader::OnWarning(TIFF*, void* self, const char*, const char* format, va_list arguments) {
  // Of a directory, only a tag that is beyond the end matters; a palette would silently become grey.
  if (!Reader(self).strict_ && !std::string_view(format).starts_with("IO error")) return 1;
  Reader(self).OnDamage(format, arguments);
  return 1;
}

}  // namespace mtrun::datasets
