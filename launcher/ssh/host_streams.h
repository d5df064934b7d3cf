// What one host says, taken apart for the console: lines behind its name, or a lone host's bytes as they are.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/output/console.h"
#include "launcher/output/line_splitter.h"
#include "launcher/ssh/failure_boxes.h"

namespace mtrun::launcher {

class HostStreams {
 public:
  /// `prefix`: "node1: "; "" passes bytes unchanged. `boxes`: of its standard error.
  HostStreams(std::string prefix, std::shared_ptr<Console> console, FailureBoxes boxes);

  /// `which`: 0 output, 1 error.
  void Show(int which, std::string_view bytes);
  /// What is left of lines that have not ended.
  void Finish();

 private:
  void Show(int which, const std::vector<Piece>& pieces);
  void ShowLines(int which, const std::vector<std::string>& lines);

  const std::string prefix_;
  const std::shared_ptr<Console> console_;
  FailureBoxes boxes_;
  LineSplitter lines_[2];
};

}  // namespace mtrun::launcher
