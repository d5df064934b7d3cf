// Every host prints the box of a failure that ended the job, and it is the same one: it is shown once. Pure.
#pragma once

#include <memory>
#include <set>
#include <string>
#include <vector>

namespace mtrun::launcher {

/// Of one host's standard error. A line is held back only while it may belong to a box.
class FailureBoxes {
 public:
  /// `shown`: the boxes of all hosts so far.
  explicit FailureBoxes(std::shared_ptr<std::set<std::string>> shown) : shown_(std::move(shown)) {}

  /// The lines to be shown now, in their order.
  std::vector<std::string> Feed(std::string line);
  std::vector<std::string> Flush();

 private:
  const std::shared_ptr<std::set<std::string>> shown_;
  std::vector<std::string> held_;
};

}  // namespace mtrun::launcher
