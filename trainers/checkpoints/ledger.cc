#include "trainers/checkpoints/ledger.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <optional>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/json_text.h"
#include "base/sha256.h"
#include "base/status_macros.h"
#include "base/string_view.h"
#include "nlohmann/json.hpp"
#include "trainers/checkpoints/json_lines_end.h"

namespace mtrun::checkpoints {
namespace {

using nlohmann::json;

/// 1: without "samples" and "hash", and generations may begin again after a rewind.
constexpr int kLedgerVersion = 2;

/// -1 where it cannot be told.
int64_t SizeOf(int fd) {
  struct stat status = {};
  return fstat(fd, &status) == 0 ? static_cast<int64_t>(status.st_size) : -1;
}

std::string RunText(uint64_t run) { return absl::StrFormat("%016x", run); }

/// What a file says so far.
struct Tail {
  std::string previous = kLedgerStart;
  std::optional<std::string> run;
  bool counts_again = false;  // of an earlier release, which numbered generations from 1 again
  uint64_t generation = 0;    // the highest so far
  int64_t next_step = 0;
};

/// False: it does not count, for a higher generation has begun before it.
bool Counts(const json& entry, Tail& tail) {
  const json generation = entry.value("generation", json());
  if (!generation.is_number_unsigned()) return true;
  const auto number = generation.get<uint64_t>();
  if (number < tail.generation && !(tail.counts_again && entry.contains("rewind"))) return false;
  tail.generation = number;
  return true;
}

void ReadLine(const std::string& line, Tail& tail) {
  tail.previous = Sha256Hex(line);
  const absl::StatusOr<json> parsed = ParseJsonObject(line, kMostLineBytes);
  if (!parsed.ok() || !Counts(*parsed, tail)) return;
  const json& entry = *parsed;
  if (entry.contains("run") && entry["run"].is_string() && !tail.run) {
    tail.run = entry["run"];
    tail.counts_again = entry.value("ledger", json()) == 1;
  }
  tail.next_step = StepAfter(entry).value_or(tail.next_step);
}

Tail TailOf(const JsonLinesEnd& end) {
  Tail tail;
  if (!end.first_line.empty()) ReadLine(end.first_line, tail);
  for (const std::string& line : end.last_lines) ReadLine(line, tail);
  // Once it gets its newline it is a line like any other: the chain goes over it, and where that was all it
  // lacked it counts.
  if (end.unfinished) ReadLine(end.unfinished_line, tail);
  return tail;
}

}  // namespace

std::string ToLine(const LedgerHead& head, std::string_view previous) {
  nlohmann::ordered_json line = {{"ledger", kLedgerVersion},
                                 {"run", RunText(head.run)},
                                 {"seed", head.seed},
                                 {"size", head.size},
                                 {"global_batch", head.global_batch},
                                 {"micro_batch", head.micro_batch},
                                 {"shuffle", head.shuffle != datasets::Shuffle::kNone},
                                 {"data", head.data}};
  if (IsStreamed(head.shuffle)) {
    line["shuffle"] = head.shuffle == datasets::Shuffle::kFixedStreams ? "fixed_streams" : "streams";
    line["window"] = head.shards.window;
    line["shards"] = head.shards.counts;
  }
  line["prev"] = std::string(previous);
  return line.dump();
}

std::string ToLine(const LedgerStep& step, std::string_view previous) {
  return absl::StrFormat(
      "{\"step\":%d,\"epoch\":%d,\"generation\":%d,\"world\":%d,\"ids\":\"%s\",\"samples\":%d,"
      "\"hash\":\"%016x\",\"loss\":\"%.17g\",\"status\":\"%s\",\"prev\":\"%s\"}",
      step.step, step.epoch, step.generation, step.world, step.ids, step.gathered.count, step.gathered.hash,
      step.loss, step.skipped ? "skipped" : "applied", View(previous));
}

std::string RewindLine(int64_t step, uint64_t generation, uint64_t of, std::string_view previous) {
  return absl::StrFormat("{\"rewind\":%d,\"generation\":%d,\"of\":%d,\"prev\":\"%s\"}", step, generation, of,
                         View(previous));
}

std::string CheckpointLine(int64_t steps, uint64_t generation, std::string_view weights,
                           std::string_view previous) {
  return absl::StrFormat("{\"checkpoint\":%d,\"generation\":%d,\"weights\":\"%s\",\"prev\":\"%s\"}", steps,
                         generation, View(weights), View(previous));
}

absl::StatusOr<uint64_t> HighestGeneration(const std::string& path) {
  MT_ASSIGN_OR_RETURN(const LedgerEnd end, EndOfLedger(path));
  return end.generation;
}

absl::StatusOr<LedgerEnd> EndOfLedger(const std::string& path) {
  MT_ASSIGN_OR_RETURN(const JsonLinesEnd end, ReadJsonLinesEnd(path));
  const Tail tail = TailOf(end);
  return LedgerEnd{.generation = tail.generation, .next_step = tail.next_step};
}

LedgerContinuation ContinueLedger(const LedgerEnd& end, const LedgerBegin& begin, uint64_t generation) {
  if (begin.of == 0) return {.rewinds = end.next_step > 0, .appended_from = 0};
  const bool further = end.next_step > begin.steps;
  const bool passed = !further && Descends(begin.lineage, {end.generation, end.next_step});
  const bool skips = generation > begin.of + 1;
  if (passed) return {.rewinds = skips, .appended_from = end.next_step};
  // A file that goes on in the state's own generation has all of its steps.
  return {.rewinds = true,
          .appended_from = further && end.generation == begin.of ? begin.steps : begin.remembered};
}

absl::StatusOr<std::optional<uint64_t>> RunOfLedger(const std::string& path) {
  MT_ASSIGN_OR_RETURN(const JsonLinesEnd end, ReadJsonLinesEnd(path));
  const std::optional<std::string> text = TailOf(end).run;
  uint64_t run = 0;
  if (!text || !absl::SimpleHexAtoi(*text, &run)) return std::nullopt;
  return run;
}

absl::StatusOr<Ledger> Ledger::Open(const std::string& path, const LedgerHead& head) {
  UniqueFd fd(open(path.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666));
  if (!fd.valid()) return ErrnoStatus(errno, "open " + path);
  MT_ASSIGN_OR_RETURN(const JsonLinesEnd end, ReadJsonLinesEnd(path));
  const Tail tail = TailOf(end);
  Ledger ledger(path, std::move(fd));
  ledger.previous_ = tail.previous;
  ledger.generation_ = tail.generation;
  ledger.next_step_ = tail.next_step;
  if (end.unfinished) MT_RETURN_IF_ERROR(WriteAll(ledger.file_.get(), "\n"));
  ledger.end_ = SizeOf(ledger.file_.get());
  if (tail.run && *tail.run != RunText(head.run)) {
    return absl::FailedPreconditionError(absl::StrCat(path, " belongs to run ", *tail.run, ", this is run ",
                                                      RunText(head.run), ": give a new --model_folder"));
  }
  if (!tail.run) MT_RETURN_IF_ERROR(ledger.Write(ToLine(head, ledger.previous_)));
  return ledger;
}

std::optional<LedgerEnd> Ledger::FollowOthers() {
  if (!pending_.empty() || SizeOf(file_.get()) == end_ || !IsFileAt(path_, file_.get())) return std::nullopt;
  const absl::StatusOr<JsonLinesEnd> end = ReadJsonLinesEnd(path_);
  if (!end.ok()) return std::nullopt;  // the verifier says what is wrong with it
  const Tail tail = TailOf(*end);
  previous_ = tail.previous;
  end_ = SizeOf(file_.get());
  if (end->unfinished) pending_ = "\n";
  return LedgerEnd{.generation = tail.generation, .next_step = tail.next_step};
}

absl::Status Ledger::Append(const LedgerStep& step) {
  const std::optional<LedgerEnd> others = FollowOthers();
  generation_ = std::max(generation_, step.generation);
  next_step_ = step.step + 1;
  if (others && others->generation == step.generation && others->next_step > step.step) return Flush();
  return Write(ToLine(step, previous_));
}

absl::Status Ledger::Begin(const LedgerBegin& begin, uint64_t generation) {
  FollowOthers();
  const LedgerContinuation how = ContinueLedger(end(), begin, generation);
  next_step_ = how.appended_from;
  if (!how.rewinds) return Flush();
  generation_ = std::max(generation_, generation);
  return Write(RewindLine(begin.steps, generation, begin.of, previous_));
}

absl::Status Ledger::AppendCheckpoint(int64_t steps, std::string_view weights) {
  FollowOthers();
  return Write(CheckpointLine(steps, std::max<uint64_t>(1, generation_), weights, previous_));
}

absl::Status Ledger::Write(const std::string& line) {
  previous_ = Sha256Hex(line);
  absl::StrAppend(&pending_, line, "\n");
  return Flush();
}

absl::Status Ledger::Flush() {
  const size_t before = pending_.size();
  absl::Status written = WriteFront(file_.get(), pending_);
  end_ += static_cast<int64_t>(before - pending_.size());
  return Annotate(written, path_);
}

bool Ledger::IsLast() const { return SizeOf(file_.get()) == end_ && IsFileAt(path_, file_.get()); }

bool Ledger::IsSuperseded() const {
  if (IsLast()) return false;
  const absl::StatusOr<LedgerEnd> end = EndOfLedger(path_);
  return !IsFileAt(path_, file_.get()) || (end.ok() && end->generation > generation_);
}

}  // namespace mtrun::checkpoints
