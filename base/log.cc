#include "base/log.h"

#include <unistd.h>

#include <cstdio>
#include <memory>
#include <mutex>
#include <utility>

#include "absl/strings/ascii.h"
#include "base/string_view.h"
#include "base/terminal.h"
#include "spdlog/sinks/base_sink.h"
#include "spdlog/spdlog.h"

namespace mtrun::log {
namespace {

spdlog::level::level_enum ToSpdlog(Level level) {
  constexpr spdlog::level::level_enum kLevels[] = {spdlog::level::debug, spdlog::level::info,
                                                   spdlog::level::warn, spdlog::level::err};
  return kLevels[static_cast<size_t>(level)];
}

/// Writes to standard error, or to the sink that SetSink gives.
class Door : public spdlog::sinks::base_sink<std::mutex> {
 public:
  void LeadTo(std::function<void(std::string)> place) {
    const std::lock_guard lock(mutex_);
    place_ = std::move(place);
  }

 private:
  void sink_it_(const spdlog::details::log_msg& message) override {
    spdlog::memory_buf_t line;
    formatter_->format(message, line);
    std::string text(line.data(), line.size());
    if (text.ends_with('\n')) text.pop_back();
    text = BreakForPeople(text, TerminalSize::Of(STDERR_FILENO).columns) + "\n";
    if (place_) return place_(text);
    std::fwrite(text.data(), 1, text.size(), stderr);
  }
  void flush_() override { std::fflush(stderr); }

  std::function<void(std::string)> place_;  // guarded by the base class's mutex_, which has no annotation
};

// Never destroyed, because threads may still log while the program exits.
const std::shared_ptr<Door>& TheDoor() {
  static auto* door = new std::shared_ptr<Door>(std::make_shared<Door>());
  return *door;
}

spdlog::logger& Logger() {
  static auto* logger = [] {
    auto* made = new spdlog::logger("mtrun", TheDoor());
    made->set_pattern("%H:%M:%S.%e mtrun %L %v");
    made->set_level(spdlog::level::info);
    made->flush_on(spdlog::level::debug);
    return made;
  }();
  return *logger;
}

}  // namespace

void SetUp(std::string_view program, Level lowest) {
  Logger().set_pattern(absl::StrCat("%H:%M:%S.%e ", View(program), " %L %v"));
  Logger().set_level(ToSpdlog(lowest));
}

bool ParseLevel(std::string_view text, Level* level) {
  const std::string lower = absl::AsciiStrToLower(View(text));
  if (lower == "debug") return *level = Level::kDebug, true;
  if (lower == "info") return *level = Level::kInfo, true;
  if (lower == "warning" || lower == "warn") return *level = Level::kWarning, true;
  if (lower == "error") return *level = Level::kError, true;
  if (lower == "critical" || lower == "fatal") return *level = Level::kError, true;  // Python's
  return false;
}

void SetSink(std::function<void(std::string)> sink) { TheDoor()->LeadTo(std::move(sink)); }

bool Shows(Level level) { return Logger().should_log(ToSpdlog(level)); }

void Write(Level level, std::string_view text) {
  Logger().log(ToSpdlog(level), spdlog::string_view_t(text.data(), text.size()));
}

}  // namespace mtrun::log
