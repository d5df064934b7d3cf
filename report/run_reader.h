// Builds a RunRecord from the texts of a run folder. Reads as much as it can of damaged input, because a page
// is needed most for a damaged run. Pure; not thread-safe.
#pragma once

#include <string>
#include <string_view>

#include "nlohmann/json.hpp"
#include "report/run_record.h"

namespace mtrun::report {

class RunReader {
 public:
  /// Longer lines are skipped; those of metrics.jsonl count as unread.
  static constexpr size_t kMaxLineBytes = 256 << 10;
  static constexpr size_t kMaxFileBytes = 64 << 20;  // limit for each file of a report
  static constexpr size_t kMaxGenerations = 10'000, kMaxWorkerPoints = 100'000;

  /// Adds a line without '\n': first metrics.jsonl, then ledger.jsonl, which has each step's world size.
  void AddMetrics(std::string_view line);
  void AddLedger(std::string_view line);
  void AddSettings(std::string_view yaml);
  void AddEnvironment(std::string_view json);
  /// Adds report.json.
  void AddResult(std::string_view json);
  /// Adds notable.json. Call after AddResult, which has the names of the classes.
  void AddNotable(std::string_view json);
  /// Adds the file DONE of the checkpoint at `steps`.
  void AddCheckpoint(int64_t steps, std::string_view manifest);

  RunRecord Take();

 private:
  void AddStep(const nlohmann::json& line);
  void AddEpoch(const nlohmann::json& line);
  void Rewind(int64_t step);
  void AddGeneration(const nlohmann::json& line);
  void AddRegroup(const nlohmann::json& line);
  void AddWorkers(const nlohmann::json& line);
  Generation& GenerationOf(uint64_t number, int64_t step);

  RunRecord run_;
  int64_t redone_ = 0;  // steps repeated by the next generation
  uint64_t ledger_generation_ = 0;
};

/// Formats seconds for people: "512 ms", "12.3 s".
std::string SecondsText(double seconds);

}  // namespace mtrun::report
