#include "trainers/run/records/metrics_log.h"

#include <fcntl.h>
#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/json_text.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "trainers/checkpoints/json_lines_end.h"

namespace mtrun::trainers {
namespace {

using checkpoints::JsonLinesEnd;
using checkpoints::ReadJsonLinesEnd;

constexpr Duration kFlushEvery = std::chrono::seconds(1);
constexpr size_t kFlushBytes = 256 << 10;
/// Maximum number of members or workers in a line, which stays far below the longest line that is read.
constexpr size_t kMaxListed = 1000;

/// Returns every digit of a double, or null if it is not finite, because JSON cannot express that.
std::string Full(double value) { return std::isfinite(value) ? absl::StrFormat("%.17g", value) : "null"; }

std::string Times(const std::vector<StepTimes>& all, double StepTimes::*part) {
  std::string list;
  for (size_t i = 0; i < std::min(all.size(), kMaxListed); ++i)
    absl::StrAppendFormat(&list, "%s%.4g", i == 0 ? "" : ",", all[i].*part);
  return list;
}

}  // namespace

std::string ToLine(const StepRecord& r) {
  return absl::StrFormat(
      "{\"step\":%d,\"epoch\":%d,\"loss\":%s,\"lr\":%s,\"samples\":%d,\"seconds\":%.6g%s}\n", r.step, r.epoch,
      Full(r.loss), Full(r.learning_rate), r.samples, r.seconds, r.skipped ? ",\"skipped\":true" : "");
}

std::string ToLine(const EvalRecord& r) {
  const char* const evaluated = r.validation ? "val" : "test";
  std::string line = absl::StrFormat("{\"eval\":%d,\"steps\":%d,\"train_loss\":%s,\"%s_loss\":%s", r.epoch,
                                     r.steps, Full(r.train_loss), evaluated, Full(r.test_loss));
  if (r.classified) {
    absl::StrAppendFormat(&line, ",\"train_accuracy\":%s,\"%s_accuracy\":%s", Full(r.train_accuracy),
                          evaluated, Full(r.test_accuracy));
  }
  if (r.test_top5) absl::StrAppendFormat(&line, ",\"%s_top5\":%s", evaluated, Full(*r.test_top5));
  // The seconds from a checkpoint may be null.
  absl::StrAppend(
      &line, ",\"seconds\":", std::isfinite(r.seconds) ? absl::StrFormat("%.6g", r.seconds) : "null", "}\n");
  return line;
}

std::string ToLine(const RegroupRecord& r) {
  return absl::StrFormat(
      "{\"regroup\":%d,\"world\":%d,\"steps\":%d,\"assign\":%.6g,\"connect\":%.6g,\"state\":%.6g,"
      "\"first_step\":%.6g}\n",
      r.generation, r.world, r.steps, r.assign, r.connect, r.state, r.first_step);
}

std::string ToLine(const DataWaitRecord& r) {
  return absl::StrFormat("{\"data_wait\":%.6g,\"steps\":%d}\n", r.seconds, r.steps);
}

std::string ToLine(const SaveRecord& r) {
  return absl::StrFormat("{\"save\":%d,\"bytes\":%d,\"stall\":%.6g}\n", r.steps, r.bytes, r.stall);
}

std::string ToLine(const GenerationRecord& r) {
  nlohmann::ordered_json line = {{"generation", r.generation}};
  if (r.assigned != 0) line["assigned"] = r.assigned;
  line["steps"] = r.steps;
  line["world"] = r.world;
  line["members"] = nlohmann::json::array();
  for (size_t i = 0; i < std::min(r.members.size(), kMaxListed); ++i)
    line["members"].push_back({r.members[i].host, r.members[i].workers});
  line["why"] = r.why;
  line["time"] = r.time;
  if (!r.machines.empty()) line["machines"] = r.machines;
  // Texts of other programs may not be UTF-8.
  return line.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

std::string ToLine(const WorkersRecord& r) {
  const std::string straggler = r.straggler ? absl::StrCat(",\"straggler\":", *r.straggler) : "";
  return absl::StrCat("{\"workers\":", r.steps, ",\"compute\":[", Times(r.times, &StepTimes::compute),
                      "],\"wait\":[", Times(r.times, &StepTimes::wait), "],\"data\":[",
                      Times(r.times, &StepTimes::data), "]", straggler, "}\n");
}

absl::StatusOr<MetricsLog> MetricsLog::Continue(const std::string& path, int64_t step) {
  UniqueFd file(open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666));
  if (!file.valid()) return ErrnoStatus(errno, absl::StrCat("open ", path));
  MT_ASSIGN_OR_RETURN(const JsonLinesEnd end, ReadJsonLinesEnd(path));
  MetricsLog log(path, std::move(file));
  for (const std::string& line : end.last_lines) log.Follow(line);
  if (!end.unfinished_line.empty()) {  // a writer died within its last line, or before its newline
    log.Follow(end.unfinished_line);
    log.pending_.push_back('\n');
  }
  if (log.next_step_ > step) {
    absl::StrAppend(&log.pending_, "{\"rewind\":", step, "}\n");
    log.next_step_ = step;
  }
  return log;
}

void MetricsLog::Follow(const std::string& line) {
  const auto entry = ParseJsonObject(line, checkpoints::kMaxLineBytes);
  if (!entry.ok()) return;
  if (const auto next = checkpoints::StepAfter(*entry)) next_step_ = *next;
  // In a job of many nodes these lines are long, and may be the only ones at the end of the file.
  if (entry->contains("generation"))
    next_step_ = WholeNumber<int64_t>(entry->value("steps", nlohmann::json())).value_or(next_step_);
}

MetricsLog::~MetricsLog() {
  if (!file_.valid()) return;  // moved from
  if (const absl::Status status = Flush(); !status.ok()) log::Error(status.message());
}

absl::Status MetricsLog::Write(const StepRecord& record, TimePoint now) {
  const bool flush = WillFlush(now);
  pending_ += ToLine(record);
  if (!flush) return absl::OkStatus();
  flushed_ = now;
  return Flush();
}

bool MetricsLog::WillFlush(TimePoint now) const {
  return now - flushed_ >= kFlushEvery || pending_.size() >= kFlushBytes;
}

absl::Status MetricsLog::Flush() { return Annotate(WriteFront(file_.get(), pending_), path_); }

}  // namespace mtrun::trainers
