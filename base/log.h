// The program's own log, on standard error. Plain declarations: files that include LibTorch's headers may
// include this (spdlog must not meet LibTorch's fmt). Thread-safe. Lines look like `14:37:44.123 mtrun I
// node0: text`.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "absl/strings/str_cat.h"

namespace mtrun::log {

enum class Level { kDebug, kInfo, kWarning, kError };

/// Names the program in each line and sets the lowest level that is shown (default: "mtrun", kInfo).
void SetUp(std::string_view program, Level lowest);
/// "debug" "info" "warning"/"warn" "error" in any case; nullptr-free: returns false and leaves `level` when
/// unknown.
bool ParseLevel(std::string_view text, Level* level);
/// Where lines go from now on, each with its end; an empty function means standard error again. Called under
/// the log's lock: it must neither log nor wait for long.
void SetSink(std::function<void(std::string line)> sink);
/// True when a line of this level would be shown.
bool Shows(Level level);
void Write(Level level, std::string_view text);

template <typename... Parts>
void Debug(const Parts&... parts) {
  if (Shows(Level::kDebug)) Write(Level::kDebug, absl::StrCat(parts...));
}
template <typename... Parts>
void Info(const Parts&... parts) {
  Write(Level::kInfo, absl::StrCat(parts...));
}
template <typename... Parts>
void Warning(const Parts&... parts) {
  Write(Level::kWarning, absl::StrCat(parts...));
}
template <typename... Parts>
void Error(const Parts&... parts) {
  Write(Level::kError, absl::StrCat(parts...));
}

}  // namespace mtrun::log
