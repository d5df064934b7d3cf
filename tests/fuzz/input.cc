#include "tests/fuzz/input.h"

#include <fcntl.h>
#include <sys/mman.h>

#include <algorithm>
#include <filesystem>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace mtrun::fuzz {

InputFile::InputFile(std::string_view bytes) : file_(memfd_create("input", MFD_CLOEXEC)) {
  MT_CHECK(file_.valid() && WriteAll(file_.get(), bytes).ok());
  path_ = absl::StrCat("/proc/self/fd/", file_.get());
}

InputFolder::InputFolder() {
  const absl::StatusOr<std::string> made = MakeTemporaryFolder("mtrun_fuzz_");
  MT_CHECK(made.ok()) << made.status();
  path_ = *made;
}

InputFolder::~InputFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

void InputFolder::Put(const std::string& name, std::string_view bytes) const {
  const std::string path = absl::StrCat(path_, "/", name);
  std::error_code error;
  std::filesystem::create_directories(std::filesystem::path(path).parent_path(), error);
  const UniqueFd file(open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
  MT_CHECK(file.valid() && WriteAll(file.get(), bytes).ok()) << path;
}

std::vector<std::string_view> Cut(std::string_view bytes, size_t count) {
  std::vector<size_t> lengths;
  while (lengths.size() + 1 < count && bytes.size() >= 2) {
    lengths.push_back(static_cast<unsigned char>(bytes[0]) + 256u * static_cast<unsigned char>(bytes[1]));
    bytes.remove_prefix(2);
  }
  std::vector<std::string_view> pieces;
  for (const size_t length : lengths) {
    pieces.push_back(bytes.substr(0, length));
    bytes.remove_prefix(std::min(length, bytes.size()));
  }
  pieces.resize(count - 1);
  pieces.push_back(bytes);
  return pieces;
}

}  // namespace mtrun::fuzz
