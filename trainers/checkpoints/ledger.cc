#include "trainers/checkpoints/ledger.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <set>
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

/// Version 1 has no "samples" and "hash", and its generations can restart after a rewind.
constexpr int kLedgerVersion = 2;

/// Returns -1 if the size is unknown.
int64_t SizeOf(int fd) {
  struct stat status = {};
  return fstat(fd, &status) == 0 ? static_cast<int64_t>(status.st_size) : -1;
}

std::string RunText(uint64_t run) { return absl::StrFormat("%016x", run); }

/// Contents of a file so far.
struct Tail {
  std::string previous = kLedgerStart;
  std::optional<std::string> run;
  bool counts_again = false;  // a file of an earlier release, which restarted generations at 1
  LedgerEnd end;
};

/// Returns false if the line does not count, because a higher generation has begun before it.
bool Counts(const json& entry, Tail& tail) {
  const json generation = entry.value("generation", json());
  if (!generation.is_number_unsigned()) return true;
  const auto number = generation.get<uint64_t>();
  if (number < tail.end.generation && !(tail.counts_again && entry.contains("rewind"))) return false;
  tail.end.generation = number;
  return true;
}

void ReadLine(const std::string& line, Tail& tail) {
  tail.previous = Sha256Hex(line);
  const absl::StatusOr<json> parsed = ParseJsonObject(line, kMaxLineBytes);
  if (!parsed.ok() || !Counts(*parsed, tail)) return;
  const json& entry = *parsed;
  if (entry.contains("run") && entry["run"].is_string() && !tail.run) {
    tail.run = entry["run"];
    tail.counts_again = entry.value("ledger", json()) == 1;
  }
  tail.end.next_step = StepAfter(entry).value_or(tail.end.next_step);
}

constexpr char kPreviousKey[] = ",\"prev\":\"";

/// Returns a line without its last member, the digest of the line before.
std::string_view ContentOf(std::string_view line) { return line.substr(0, line.rfind(kPreviousKey)); }

/// Adds the content of a line that the disk has not cut off.
void AddContent(std::string_view line, std::set<std::string_view>& contents) {
  if (line.ends_with("\"}")) contents.insert(ContentOf(line));
}

Tail TailOf(const JsonLinesEnd& end) {
  Tail tail;
  if (!end.first_line.empty()) ReadLine(end.first_line, tail);
  for (const std::string& line : end.last_lines) ReadLine(line, tail);
  // With a newline it is a line like any other: the chain includes it, and it counts if it lacked only that.
  if (!end.unfinished_line.empty()) ReadLine(end.unfinished_line, tail);
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
  const std::string parent = of == 0 && step > 0 ? "" : absl::StrCat("\"of\":", of, ",");
  return absl::StrFormat("{\"rewind\":%d,\"generation\":%d,%s\"prev\":\"%s\"}", step, generation, parent,
                         View(previous));
}

absl::StatusOr<LedgerEnd> EndOfLedger(const std::string& path) {
  MT_ASSIGN_OR_RETURN(const JsonLinesEnd end, ReadJsonLinesEnd(path));
  return TailOf(end).end;
}

LedgerContinuation ContinueLedger(const LedgerEnd& end, const LedgerBegin& begin, uint64_t generation) {
  if (begin.of == 0) return {.rewinds = end.next_step > 0};
  const bool further = end.next_step > begin.steps;
  const bool passed = !further && Descends(begin.lineage, {end.generation, end.next_step});
  LedgerContinuation how{.rewinds = true, .rewinds_to = begin.steps, .of = begin.of};
  if (passed) {
    how.rewinds = generation > begin.of + 1;
    how.appended_from = end.next_step;
    return how;
  }
  // A file that continues in the state's own generation has all of its steps.
  const bool has_all = further && end.generation == begin.of;
  how.appended_from = has_all ? begin.steps : begin.remembered;
  if (generation > begin.of) return how;
  const Lineage& lineage = begin.lineage;
  const bool known = !lineage.empty() && lineage.back().generation == generation;
  if (known && !has_all) how.rewinds_to = lineage.back().from;
  how.of = known && lineage.size() > 1 ? lineage[lineage.size() - 2].generation : 0;
  return how;
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
  ledger.generation_ = tail.end.generation;
  ledger.next_step_ = tail.end.next_step;
  if (!end.unfinished_line.empty()) MT_RETURN_IF_ERROR(WriteAll(ledger.file_.get(), "\n"));
  ledger.end_ = SizeOf(ledger.file_.get());
  if (tail.run && *tail.run != RunText(head.run)) {
    return absl::FailedPreconditionError(absl::StrCat(path, " belongs to run ", *tail.run,
                                                      ", but this is run ", RunText(head.run),
                                                      ": give a new --model_folder"));
  }
  if (!tail.run) MT_RETURN_IF_ERROR(ledger.Write(ToLine(head, ledger.previous_)));
  return ledger;
}

void Ledger::FollowOthers() {
  const int64_t size = SizeOf(file_.get());
  if (size == end_ || !IsFileAt(path_, file_.get())) return;
  const absl::StatusOr<JsonLinesEnd> end = ReadJsonLinesEnd(path_);
  if (!end.ok()) return;  // the verifier reports the error
  const Tail tail = TailOf(*end);
  previous_ = tail.previous;
  end_ = size;
  others_ = tail.end;
  others_are_last_ = true;
  ends_line_ = !end->unfinished_line.empty();
  begun_ = 0;  // what is in the file of a line that the disk has cut off stays there
  std::set<std::string_view> there;
  for (const std::string& line : end->last_lines) AddContent(line, there);
  AddContent(end->unfinished_line, there);
  for (const std::string& line : std::exchange(pending_, {})) {
    const std::string_view content = ContentOf(line);
    if (there.contains(content)) continue;
    pending_.push_back(absl::StrCat(View(content), kPreviousKey, previous_, "\"}"));
    previous_ = Sha256Hex(pending_.back());
  }
}

absl::Status Ledger::Append(const LedgerStep& step) {
  FollowOthers();
  generation_ = std::max(generation_, step.generation);
  next_step_ = step.step + 1;
  if (others_.generation == step.generation && others_.next_step > step.step) return WritePending();
  return Write(ToLine(step, previous_));
}

absl::Status Ledger::Begin(const LedgerBegin& begin, uint64_t generation) {
  FollowOthers();
  const LedgerContinuation how = ContinueLedger(end(), begin, generation);
  next_step_ = how.appended_from;
  if (!how.rewinds) return WritePending();
  others_ = {};
  generation_ = std::max(generation_, generation);
  return Write(RewindLine(how.rewinds_to, generation, how.of, previous_));
}

absl::Status Ledger::AppendCheckpoint(int64_t steps, std::string_view weights) {
  FollowOthers();
  return Write(absl::StrFormat("{\"checkpoint\":%d,\"generation\":%d,\"weights\":\"%s\",\"prev\":\"%s\"}",
                               steps, std::max<uint64_t>(1, generation_), View(weights), previous_));
}

absl::Status Ledger::Write(const std::string& line) {
  previous_ = Sha256Hex(line);
  pending_.push_back(line);
  return WritePending();
}

absl::Status Ledger::Flush() {
  FollowOthers();
  return WritePending();
}

absl::Status Ledger::WritePending() {
  std::string text = ends_line_ ? "\n" : "";
  for (const std::string& line : pending_) absl::StrAppend(&text, line, "\n");
  text.erase(0, begun_);
  const size_t before = text.size();
  const absl::Status written = WriteFront(file_.get(), text);
  const size_t stored = before - text.size();
  end_ += static_cast<int64_t>(stored);
  begun_ += stored;
  others_are_last_ = others_are_last_ && stored == 0;
  if (begun_ > 0 && std::exchange(ends_line_, false)) --begun_;
  while (!pending_.empty() && begun_ > pending_.front().size()) {
    begun_ -= pending_.front().size() + 1;
    pending_.pop_front();
  }
  return Annotate(written, path_);
}

bool Ledger::IsLast() const {
  return !others_are_last_ && SizeOf(file_.get()) == end_ && IsFileAt(path_, file_.get());
}

bool Ledger::IsSuperseded() const {
  if (others_.generation > generation_) return true;
  if (IsLast()) return false;
  const absl::StatusOr<LedgerEnd> end = EndOfLedger(path_);
  return !IsFileAt(path_, file_.get()) || (end.ok() && end->generation > generation_);
}

}  // namespace mtrun::checkpoints
