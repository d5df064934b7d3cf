// The program's own log, on standard error. Plain declarations, so that files with LibTorch's headers can
// include this (spdlog must not meet LibTorch's fmt). Thread-safe. Lines look like `14:37:44.123 mtrun I
// node0: text`.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "absl/strings/str_cat.h"

namespace mtrun::log {

enum class Level { kDebug, kInfo, kWarning, kError };

/// Sets the program's name in each line and the lowest level shown (default: "mtrun", kInfo).
void SetUp(std::string_view program, Level lowest);
/// Parses "debug" "info" "warning"/"warn" "error" in any case. Returns false and leaves `level` unchanged if
/// unknown.
bool ParseLevel(std::string_view text, Level* level);
/// Sends future lines, each with its end, to `sink`; an empty function restores standard error. The sink runs
/// under the log's lock: it must neither log nor block for long.
void SetSink(std::function<void(std::string line)> sink);
/// Returns whether a line of this level would be shown.
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
