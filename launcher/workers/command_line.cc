#include "launcher/workers/command_line.h"

#include <algorithm>
#include <cstring>

namespace mtrun::launcher {
namespace {

char* begin = nullptr;
size_t size = 0;

}  // namespace

void KeepCommandLine(int argc, char** argv) {
  begin = argv[0];
  char* end = argv[0];
  // The kernel placed them one after another.
  for (int i = 0; i < argc && argv[i] == end; ++i) end = argv[i] + std::strlen(argv[i]) + 1;
  size = static_cast<size_t>(end - begin);
}

void SetCommandLine(std::string_view text) {
  if (size == 0) return;
  std::memset(begin, 0, size);
  std::copy_n(text.data(), std::min(text.size(), size - 1), begin);
}

}  // namespace mtrun::launcher
