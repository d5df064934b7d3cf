// Rows of a table in docs/figures.md that gives the time from a fault to a job's reaction: each test prints
// its time and asserts its bound. A busy machine can be late occasionally: the best of several tries counts.
#pragma once

#include <functional>
#include <iostream>
#include <string>
#include <utility>

#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace mtrun::e2e {

class TimedRows {
 protected:
  static constexpr int kTries = 3;
  static constexpr double kLatest = 3;  // above the bound: even a loaded machine is never so late
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  static constexpr double kRoom = kLatest;  // the programs are instrumented, too
#else
  static constexpr double kRoom = 0.5;  // for other load on the machine; silence alone would take 1.5 s
#endif

  /// `table`: the start of its lines.
  explicit TimedRows(std::string table) : table_(std::move(table)) {}

  /// Runs `once`, which injects a fault and reports the time of the reaction, and `clear` before another try.
  void Tries(const std::function<void()>& once, const std::function<void()>& clear) {
    for (int tries = 1;; ++tries) {
      late_.clear();
      once();
      if (late_.empty() || ::testing::Test::HasFailure() || tries == kTries) break;
      std::cout << "[" << table_ << "] once more: " << late_ << std::endl;
      clear();
    }
    EXPECT_EQ(late_, "") << "in each of " << kTries << " tries";
  }

  /// Called in `once`: prints and records the time, which must be within its bound, in seconds.
  void Report(const std::string& row, double seconds, double bound) {
    const std::string text = absl::StrFormat("%-62s %5.2f s (bound %.2g s)", row, seconds, bound);
    std::cout << "[" << table_ << "] " << text << std::endl;
    ::testing::Test::RecordProperty(row, absl::StrFormat("%.3f s", seconds));
    if (seconds > bound + kRoom) late_ = text;
    EXPECT_LE(seconds, bound + kLatest) << row;
  }

 private:
  const std::string table_;
  std::string late_;  // rows above their bounds in this try
};

}  // namespace mtrun::e2e
