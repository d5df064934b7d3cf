#include "report/page.h"
#include "report/run_reader.h"
#include "tests/fuzz/fuzz_targets.h"
#include "tests/fuzz/invariant.h"

namespace mtrun::fuzz {
namespace {

void Take(report::RunReader& reader, std::string_view line) {
  const char kind = line.empty() ? '.' : line.front();
  const std::string_view rest = line.substr(line.empty() ? 0 : 1);
  if (kind == 'L') {
    reader.AddLedger(rest);
  } else if (kind == 'S') {
    reader.AddSettings(rest);
  } else if (kind == 'E') {
    reader.AddEnvironment(rest);
  } else if (kind == 'R') {
    reader.AddResult(rest);
  } else if (kind == 'N') {
    reader.AddNotable(rest);
  } else if (kind == 'C') {
    reader.AddCheckpoint(static_cast<int64_t>(rest.size()), rest);
  } else {
    reader.AddMetrics(line);
  }
}

}  // namespace

void FuzzReport(std::string_view bytes) {
  report::RunReader reader;
  while (!bytes.empty()) {
    const size_t end = bytes.find('\n');
    Take(reader, bytes.substr(0, end));
    bytes.remove_prefix(end == std::string_view::npos ? bytes.size() : end + 1);
  }
  const report::RunRecord run = reader.Take();
  for (size_t i = 1; i < run.steps.size(); ++i) {
    MT_HOLDS(run.steps[i].step > run.steps[i - 1].step) << run.steps[i].step;
  }
  MT_HOLDS(report::Page({run}, "now").find("</html>") != std::string::npos);
}

}  // namespace mtrun::fuzz
