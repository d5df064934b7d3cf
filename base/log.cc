#include "base/log.h"

#include <memory>
#include <mutex>

#include "absl/strings/ascii.h"
#include "spdlog/sinks/stdout_sinks.h"
#include "spdlog/spdlog.h"

namespace mtrun::log {
namespace {

spdlog::level::level_enum ToSpdlog(Level level) {
  switch (level) {
    case Level::kDebug:
      return spdlog::level::debug;
    case Level::kInfo:
      return spdlog::level::info;
    case Level::kWarning:
      return spdlog::level::warn;
    case Level::kError:
      return spdlog::level::err;
  }
  return spdlog::level::info;
}

// Never destroyed: threads may still log while the program ends.
spdlog::logger& Logger() {
  static auto* logger = [] {
    auto* made = new spdlog::logger("mtrun", std::make_shared<spdlog::sinks::stderr_sink_mt>());
    made->set_pattern("%H:%M:%S.%e mtrun %L %v");
    made->set_level(spdlog::level::info);
    made->flush_on(spdlog::level::debug);
    return made;
  }();
  return *logger;
}

}  // namespace

void SetUp(std::string_view program, Level lowest) {
  Logger().set_pattern(
      absl::StrCat("%H:%M:%S.%e ", absl::string_view(program.data(), program.size()), " %L %v"));
  Logger().set_level(ToSpdlog(lowest));
}

bool ParseLevel(std::string_view text, Level* level) {
  const std::string lower = absl::AsciiStrToLower(absl::string_view(text.data(), text.size()));
  if (lower == "debug") return *level = Level::kDebug, true;
  if (lower == "info") return *level = Level::kInfo, true;
  if (lower == "warning" || lower == "warn") return *level = Level::kWarning, true;
  if (lower == "error") return *level = Level::kError, true;
  return false;
}

bool Shows(Level level) { return Logger().should_log(ToSpdlog(level)); }

void Write(Level level, std::string_view text) {
  Logger().log(ToSpdlog(level), spdlog::string_view_t(text.data(), text.size()));
}

}  // namespace mtrun::log
