#include "trainers/engine/error_file.h"

#include <ctime>

#include "absl/strings/str_cat.h"
#include "base/posix.h"
#include "nlohmann/json.hpp"

namespace mtrun::engine {

std::string ErrorFileText(std::string_view message, int64_t unix_seconds) {
  const nlohmann::json json = {
      {"message",
       {{"message", std::string(message)},
        {"extraInfo", {{"py_callstack", ""}, {"timestamp", absl::StrCat(unix_seconds)}}}}}};
  return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

absl::Status WriteErrorFile(const std::string& path, std::string_view message) {
  if (path.empty()) return absl::OkStatus();
  return WriteFileAtomically(path, ErrorFileText(message, std::time(nullptr)));
}

}  // namespace mtrun::engine
