#include "tensorboard/record.h"

#include "tensorboard/crc32c.h"
#include "tensorboard/wire.h"

namespace mtrun::tensorboard {

void AppendFrame(std::string& out, std::string_view record) {
  const size_t begin = out.size();
  wire::AppendFixed(out, static_cast<uint64_t>(record.size()));
  wire::AppendFixed(out, MaskedCrc32c(std::string_view(out).substr(begin)));
  out += record;
  wire::AppendFixed(out, MaskedCrc32c(record));
}

}  // namespace mtrun::tensorboard
