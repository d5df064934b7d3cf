#include "trainers/checkpoints/ledger.h"

#include <fcntl.h>

#include <cerrno>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/sha256.h"
#include "base/status_macros.h"
#include "base/string_view.h"
#include "nlohmann/json.hpp"
#include "trainers/checkpoints/json_lines_end.h"

namespace mtrun::checkpoints {
namespace {

using nlohmann::json;

std::string RunText(uint64_t run) { return absl::StrFormat("%016x", run); }

/// What a file says so far.
struct Tail {
  std::string previous = kLedgerStart;
  std::optional<std::string> run;
  int64_t next_step = 0;
};

void ReadLine(const std::string& line, Tail& tail) {
  tail.previous = Sha256Hex(line);
  const json entry = json::parse(line, nullptr, /*allow_exceptions=*/false);
  if (!entry.is_object()) return;
  if (entry.contains("run") && entry["run"].is_string() && !tail.run) tail.run = entry["run"];
  if (entry.contains("step") && entry["step"].is_number_integer()) {
    tail.next_step = entry["step"].get<int64_t>() + 1;
  }
  if (entry.contains("rewind") && entry["rewind"].is_number_integer()) tail.next_step = entry["rewind"];
}

Tail TailOf(const JsonLinesEnd& end) {
  Tail tail;
  if (!end.first_line.empty()) ReadLine(end.first_line, tail);
  for (const std::string& line : end.last_lines) ReadLine(line, tail);
  // Once it gets its newline it is a line like any other: the chain goes over it.
  if (end.unfinished) tail.previous = Sha256Hex(end.unfinished_line);
  return tail;
}

}  // namespace

std::string ToLine(const LedgerHead& head, std::string_view previous) {
  const nlohmann::ordered_json line = {{"ledger", 1},
                                       {"run", RunText(head.run)},
                                       {"seed", head.seed},
                                       {"size", head.size},
                                       {"global_batch", head.global_batch},
                                       {"micro_batch", head.micro_batch},
                                       {"shuffle", head.shuffle},
                                       {"data", head.data},
                                       {"prev", std::string(previous)}};
  return line.dump();
}

std::string ToLine(const LedgerStep& step, std::string_view previous) {
  return absl::StrFormat(
      "{\"step\":%d,\"epoch\":%d,\"generation\":%d,\"world\":%d,\"ids\":\"%s\",\"loss\":\"%.17g\",\"status\":"
      "\"%s\","
      "\"prev\":\"%s\"}",
      step.step, step.epoch, step.generation, step.world, step.ids, step.loss,
      step.skipped ? "skipped" : "applied", View(previous));
}

std::string RewindLine(int64_t step, uint64_t generation, std::string_view previous) {
  return absl::StrFormat("{\"rewind\":%d,\"generation\":%d,\"prev\":\"%s\"}", step, generation,
                         View(previous));
}

absl::StatusOr<Ledger> Ledger::Open(const std::string& path, const LedgerHead& head) {
  UniqueFd fd(open(path.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666));
  if (!fd.valid()) return ErrnoStatus(errno, "open " + path);
  MT_ASSIGN_OR_RETURN(const JsonLinesEnd end, ReadJsonLinesEnd(path));
  const Tail tail = TailOf(end);
  Ledger ledger(path, std::move(fd));
  ledger.previous_ = tail.previous;
  ledger.next_step_ = tail.next_step;
  if (end.unfinished) MT_RETURN_IF_ERROR(WriteAll(ledger.file_.get(), "\n"));
  if (tail.run && *tail.run != RunText(head.run)) {
    return absl::FailedPreconditionError(absl::StrCat(path, " belongs to run ", *tail.run, ", this is run ",
                                                      RunText(head.run), ": give a new --model_folder"));
  }
  if (!tail.run) MT_RETURN_IF_ERROR(ledger.Write(ToLine(head, ledger.previous_)));
  return ledger;
}

absl::Status Ledger::Append(const LedgerStep& step) {
  MT_RETURN_IF_ERROR(Write(ToLine(step, previous_)));
  next_step_ = step.step + 1;
  return absl::OkStatus();
}

absl::Status Ledger::Rewind(int64_t step, uint64_t generation) {
  MT_RETURN_IF_ERROR(Write(RewindLine(step, generation, previous_)));
  next_step_ = step;
  return absl::OkStatus();
}

absl::Status Ledger::Write(std::string line) {
  previous_ = Sha256Hex(line);
  line.push_back('\n');
  const absl::Status status = WriteAll(file_.get(), line);
  return status.ok() ? status : Annotate(status, path_);
}

}  // namespace mtrun::checkpoints
