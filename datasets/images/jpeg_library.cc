#include "datasets/images/jpeg_library.h"

#include <jerror.h>

#include "absl/strings/str_cat.h"

namespace mtrun::datasets {
namespace {

/// A progressive file of a few kilobytes can contain thousands of scans, each of which costs a pass over all
/// pixels. Encoders make about ten.
constexpr int kMaxScans = 500;

JpegReader& Self(j_common_ptr library) { return *static_cast<JpegReader*>(library->client_data); }

/// Returns true for warnings after which all pixels are still decoded.
bool KeepsPixels(int code) {
  return code == JWRN_EXTRANEOUS_DATA || code == JWRN_ADOBE_XFORM || code == JWRN_JFIF_MAJOR ||
         code == JWRN_BOGUS_PROGRESSION;
}

}  // namespace

JpegReader::JpegReader(std::string_view file) {
  library_.err = jpeg_std_error(&errors_);
  library_.client_data = this;
  errors_.error_exit = OnError;
  errors_.emit_message = OnMessage;
  if (setjmp(jump_) != 0) return;  // out of memory: the next call fails in the same way
  jpeg_create_decompress(&library_);
  progress_.progress_monitor = OnProgress;
  library_.progress = &progress_;
  jpeg_mem_src(&library_, reinterpret_cast<const unsigned char*>(file.data()), file.size());
}

JpegReader::~JpegReader() { jpeg_destroy_decompress(&library_); }

void JpegReader::OnError(j_common_ptr library) {
  JpegReader& self = Self(library);
  self.errors_.format_message(library, self.message_);
  std::longjmp(self.jump_, 1);
}

void JpegReader::OnMessage(j_common_ptr library, int level) {
  JpegReader& self = Self(library);
  if (level >= 0 || self.damaged_ || KeepsPixels(self.errors_.msg_code)) return;
  self.damaged_ = true;
  self.errors_.format_message(library, self.message_);
}

void JpegReader::OnProgress(j_common_ptr library) {
  JpegReader& self = Self(library);
  if (self.library_.input_scan_number <= kMaxScans) return;
  self.too_many_scans_ = true;
  std::longjmp(self.jump_, 1);
}

absl::Status JpegReader::Failure() const {
  if (too_many_scans_)
    return absl::InvalidArgumentError(absl::StrCat("a JPEG with more than ", kMaxScans, " scans"));
  return absl::DataLossError(absl::StrCat("damaged JPEG: ", message_));
}

}  // namespace mtrun::datasets
