// A real program under test: captures its output, waits for lines of it, and kills it in the destructor.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <condition_variable>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace mtrun::support {

using Seconds = std::chrono::duration<double>;

/// Sufficient for a loaded machine with sanitizers; a test that waits this long has failed.
inline constexpr Seconds kPatience{60};

/// Returns `words` followed by `more`.
std::vector<std::string> Joined(std::vector<std::string> words, const std::vector<std::string>& more);

/// Returns the folder with mtrun: $MT_BIN, which ctest sets.
std::string BinaryFolder();
/// Returns the path of a file under tests/ of the source tree.
std::string TestFile(const std::string& name);

/// Environment overlay: nullopt removes the variable.
using Overlay = std::map<std::string, std::optional<std::string>>;

/// Thread-safe.
class Program {
 public:
  explicit Program(const std::vector<std::string>& argv, const Overlay& overlay = {},
                   const std::string& folder = "");
  ~Program();
  Program(const Program&) = delete;

  pid_t pid() const { return pid_; }
  void Signal(int signal) const;
  /// Waits for a line that contains `text` on either stream, or finds an earlier one; nothing if none
  /// arrives.
  std::optional<std::string> WaitForLine(const std::string& text, Seconds patience = kPatience);
  /// Waits for `count` such lines.
  bool WaitForLines(const std::string& text, size_t count, Seconds patience = kPatience);
  /// Returns the status like a shell (128 + signal), or nothing if it has not ended. All output is read by
  /// then.
  std::optional<int> Wait(Seconds patience = kPatience);

  std::vector<std::string> OutLines();
  std::vector<std::string> ErrLines();
  /// Returns both streams in the order of arrival.
  std::string Text();

 private:
  void Read(int which, int fd);

  pid_t pid_ = -1;
  std::optional<int> status_;
  int stop_reading_ = -1;  // an eventfd
  std::thread readers_[2];
  std::mutex mu_;  // guards the members below
  std::condition_variable changed_;
  std::vector<std::pair<int, std::string>> lines_;
  int open_streams_ = 2;
};

/// A mark in the environment of every descendant of a program, whatever its session and parent.
class Mark {
 public:
  Mark();
  /// Kills every process that still carries it.
  ~Mark();
  Mark(const Mark&) = delete;

  static constexpr char kVariable[] = "MTRUN_TEST_MARK";
  const std::string& value() const { return value_; }
  Overlay overlay() const { return {{kVariable, value_}}; }

  /// Returns the living (not zombie) processes that carry the mark, except this one.
  std::vector<pid_t> Alive() const;
  /// Waits until there are at least `count`.
  bool WaitForAlive(size_t count, Seconds patience = kPatience) const;
  /// Waits until no process is left; returns whether that is so.
  bool WaitForNone(Seconds patience) const;

 private:
  std::string value_;
};

/// A private folder that is removed with its owner.
class TemporaryFolder {
 public:
  TemporaryFolder();
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  const std::string& path() const { return path_; }
  std::string File(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

std::string ReadText(const std::string& path);
void WriteText(const std::string& path, const std::string& text, bool executable = false);

}  // namespace mtrun::support
