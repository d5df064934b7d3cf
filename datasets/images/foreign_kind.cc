#include "datasets/images/foreign_kind.h"

#include "absl/strings/match.h"

namespace mtrun::datasets {
namespace {

using std::string_view_literals::operator""sv;

struct Signature {
  size_t at;
  std::string_view bytes, name;
};

constexpr Signature kSignatures[] = {
    {0, "GIF8"sv, "a GIF"},
    {4, "ftypavif"sv, "a HEIC or AVIF"},
    {4, "ftypavis"sv, "a HEIC or AVIF"},
    {4, "ftypheic"sv, "a HEIC or AVIF"},
    {4, "ftypheix"sv, "a HEIC or AVIF"},
    {4, "ftyphevc"sv, "a HEIC or AVIF"},
    {4, "ftypmif1"sv, "a HEIC or AVIF"},
    {4, "ftypmsf1"sv, "a HEIC or AVIF"},
    {0, "\0\0\1\0"sv, "an ICO"},
    {0, "\0\0\0\x0cjP  \r\n\x87\n"sv, "a JPEG 2000"},
    {0, "\xff\x4f\xff\x51"sv, "a JPEG 2000"},
    {0, "\0\0\0\x0cJXL \r\n\x87\n"sv, "a JPEG XL"},
    {0, "\xff\x0a"sv, "a JPEG XL"},
    {0, "8BPS"sv, "a Photoshop"},
    {0, "\x76\x2f\x31\x01"sv, "an OpenEXR"},
    {0, "DDS "sv, "a DDS"},
    {0, "qoif"sv, "a QOI"},
    {0, "%PDF"sv, "a PDF"},
    {0, "<svg"sv, "an SVG"},
    {0, "P7\n"sv, "a PAM"},
    {0, "PF\n"sv, "a PFM"},
    {0, "Pf\n"sv, "a PFM"},
};

// The signature of Truevision's TGA 2.0 is in its last 26 bytes.
constexpr std::string_view kTgaEnd = "TRUEVISION-XFILE.\0"sv;

}  // namespace

std::string_view ForeignKind(std::string_view file) {
  for (const Signature& signature : kSignatures) {
    if (file.size() > signature.at && file.substr(signature.at, signature.bytes.size()) == signature.bytes)
      return signature.name;
  }
  return absl::EndsWith({file.data(), file.size()}, {kTgaEnd.data(), kTgaEnd.size()}) ? "a TGA" : "";
}

}  // namespace mtrun::datasets
