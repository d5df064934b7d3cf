// Rows of a table in docs/figures.md that says how soon a job does what after which fault: each test prints
// its time and asserts its bound. A machine that has other things to do may be late for once: of some tries
// the best counts.
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
  static constexpr double kLatest = 3;  // beyond its bound: not even a loaded machine makes a row so late
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  static constexpr double kRoom = kLatest;  // the programs are instrumented, too
#else
  static constexpr double kRoom = 0.5;  // for what else runs on the machine; silence alone would cost 1.5 s
#endif

  /// `table`: what its lines begin with.
  explicit TimedRows(std::string table) : table_(std::move(table)) {}

  /// `once` does harm to a job and reports how soon what is meant came; `clear` goes before another try.
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

  /// Within `once`: prints the time and keeps it with the test's result; it must lie within its bound, in
  /// seconds.
  void Report(const std::string& row, double seconds, double bound) {
    const std::string text = absl::StrFormat("%-62s %5.2f s (bound %.2g s)", row, seconds, bound);
    std::cout << "[" << table_ << "] " << text << std::endl;
    ::testing::Test::RecordProperty(row, absl::StrFormat("%.3f s", seconds));
    if (seconds > bound + kRoom) late_ = text;
    EXPECT_LE(seconds, bound + kLatest) << row;
  }

 private:
  const std::string table_;
  std::string late_;  // what was not within its bound in this try
};

}  // namespace mtrun::e2e
