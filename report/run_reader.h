// From the texts of a run folder to a RunRecord: anything at all is read as far as it can be, for a page
// about a damaged run is wanted most. Pure; not thread-safe.
#pragma once

#include <string>
#include <string_view>

#include "nlohmann/json.hpp"
#include "report/run_record.h"

namespace mtrun::report {

class RunReader {
 public:
  /// Longer lines are passed over; those of metrics.jsonl count as unread.
  static constexpr size_t kMostLineBytes = 256 << 10;
  static constexpr size_t kMostFileBytes = 64 << 20;  // of a report
  static constexpr size_t kMostGenerations = 10'000, kMostWorkerPoints = 100'000;

  /// Lines without '\n' of metrics.jsonl, then of ledger.jsonl, which knows the world size of every step.
  void AddMetrics(std::string_view line);
  void AddLedger(std::string_view line);
  void AddSettings(std::string_view yaml);
  void AddEnvironment(std::string_view json);
  /// report.json.
  void AddResult(std::string_view json);
  /// DONE of the checkpoint of `steps`.
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
  int64_t redone_ = 0;  // by the next generation
  uint64_t ledger_generation_ = 0;
};

/// "512 ms", "12.3 s": for people.
std::string SecondsText(double seconds);

}  // namespace mtrun::report
