// Shows the box of a failure once, although every host prints the same one. Pure.
#pragma once

#include <memory>
#include <set>
#include <string>
#include <vector>

namespace mtrun::launcher {

/// Filters one host's standard error. A line is held back only while it may belong to a box.
class FailureBoxes {
 public:
  /// `shown`: the boxes of all hosts so far.
  explicit FailureBoxes(std::shared_ptr<std::set<std::string>> shown) : shown_(std::move(shown)) {}

  /// Returns the lines to show now, in order.
  std::vector<std::string> Feed(std::string line);
  std::vector<std::string> Flush();

 private:
  const std::shared_ptr<std::set<std::string>> shown_;
  std::vector<std::string> held_;
};

}  // namespace mtrun::launcher
