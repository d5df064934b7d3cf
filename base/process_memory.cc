#include "base/process_memory.h"

#include <unistd.h>

#include <fstream>

namespace mtrun {

int64_t ResidentBytes() {
  std::ifstream file("/proc/self/statm");
  int64_t pages = 0, resident = 0;
  if (!(file >> pages >> resident)) return 0;
  return resident * sysconf(_SC_PAGESIZE);
}

}  // namespace mtrun
