#include "trainers/weights/file_kind.h"

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/utf8.h"

namespace mtrun::trainers {
namespace {

struct Beginning {
  absl::string_view bytes;
  const char* kind;
};
constexpr Beginning kBeginnings[] = {
    {"\x89HDF\r\n\x1a\n", "an HDF5 file (of Keras or TensorFlow): convert it to safetensors"},
    {"GGUF", "a GGUF file: take the model's safetensors instead"},
    {"\x1f\x8b", "a gzip file: unpack it first"},
    {"BZh", "a bzip2 file: unpack it first"},
    {"\xfd"
     "7zXZ",
     "an xz file: unpack it first"},
    {"\x28\xb5\x2f\xfd", "a zstd file: unpack it first"},
    {"version https://git-lfs", "a pointer of Git LFS: git lfs pull fetches the file itself"},
    {"\x93NUMPY", "an array of NumPy: save a state dict with safetensors.torch.save_file or torch.save"}};

constexpr size_t kLengthBytes = 8, kShown = 8;

/// A length of less than 4 GiB, then a JSON object.
bool CanBeSafetensors(absl::string_view start) {
  return start.size() > kLengthBytes && start.substr(4, 4) == absl::string_view("\0\0\0\0", 4) &&
         start[kLengthBytes] == '{';
}

}  // namespace

std::string OtherKind(absl::string_view start) {
  if (start.empty()) return "an empty file";
  if (CanBeSafetensors(start)) return "";
  for (const Beginning& beginning : kBeginnings) {
    if (absl::StartsWith(start, beginning.bytes)) return beginning.kind;
  }
  constexpr char kProto = '\x80', kLastProtocol = 5;
  if (start.size() > 1 && start[0] == kProto && start[1] >= 0 && start[1] <= kLastProtocol)
    return "a Python pickle that torch.save did not write: save it with torch.save";
  const absl::string_view text = absl::StripLeadingAsciiWhitespace(start);
  if (absl::StartsWithIgnoreCase(text, "<!doctype html") || absl::StartsWithIgnoreCase(text, "<html"))
    return "a web page: download the file itself";
  return absl::StrCat("neither safetensors nor a file of torch.save: it begins with \"",
                      AsPlainText(std::string(start.substr(0, kShown))), "\"");
}

}  // namespace mtrun::trainers
