// A real program under test: started with its output captured, waited for by what it says, killed at the
// latest by the destructor.
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

/// Long enough for a loaded machine with sanitizers; a test that waits this long has failed.
inline constexpr Seconds kPatience{60};

/// A command line with `more` behind it.
std::vector<std::string> Joined(std::vector<std::string> words, const std::vector<std::string>& more);

/// The folder that holds mtrun: $MT_BIN, which ctest sets.
std::string BinaryFolder();
/// A file under tests/ of the source tree.
std::string TestFile(const std::string& name);

/// Environment overlay: a value of nullopt takes the variable away.
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
  /// Waits for a line that contains `text`, on either stream, also among those that have come already; the
  /// line, or nothing.
  std::optional<std::string> WaitForLine(const std::string& text, Seconds patience = kPatience);
  /// Waits for `count` such lines.
  bool WaitForLines(const std::string& text, size_t count, Seconds patience = kPatience);
  /// Exit status as a shell gives it (128 + signal), nothing when it has not ended in time. All output is in
  /// by then.
  std::optional<int> Wait(Seconds patience = kPatience);

  std::vector<std::string> OutLines();
  std::vector<std::string> ErrLines();
  /// Both streams in the order of arrival.
  std::string Text();

 private:
  void Read(int which, int fd);

  pid_t pid_ = -1;
  std::optional<int> status_;
  int stop_reading_ = -1;  // an eventfd
  std::thread readers_[2];
  std::mutex mu_;  // guards what follows
  std::condition_variable changed_;
  std::vector<std::pair<int, std::string>> lines_;
  int open_streams_ = 2;
};

/// A mark in the environment that every descendant of a program carries, whatever it does about sessions and
/// parents.
class Mark {
 public:
  Mark();
  /// Kills whatever still carries it.
  ~Mark();
  Mark(const Mark&) = delete;

  static constexpr char kVariable[] = "MTRUN_TEST_MARK";
  const std::string& value() const { return value_; }
  Overlay overlay() const { return {{kVariable, value_}}; }

  /// Living (not zombie) processes that carry the mark, besides this one.
  std::vector<pid_t> Alive() const;
  /// Waits until there are at least `count`.
  bool WaitForAlive(size_t count, Seconds patience = kPatience) const;
  /// True once nothing is left.
  bool WaitForNone(Seconds patience) const;

 private:
  std::string value_;
};

/// A private folder that goes with its owner.
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
