#include "trainers/run/records/run_progress.h"

#include <cmath>

#include "absl/strings/numbers.h"
#include "absl/strings/str_format.h"
#include "base/json_fields.h"
#include "base/status_macros.h"

namespace mtrun::trainers {
namespace {

using nlohmann::json;

/// Returns null if the value is not finite, because JSON cannot express that.
json Number(double value) { return std::isfinite(value) ? json(value) : json(nullptr); }

json ToJson(const EvalRecord& r) {
  json entry = {{"steps", r.steps},
                {"epoch", r.epoch},
                {"train_loss", Number(r.train_loss)},
                {"train_accuracy", Number(r.train_accuracy)},
                {"test_loss", Number(r.test_loss)},
                {"test_accuracy", Number(r.test_accuracy)},
                {"seconds", Number(r.seconds)},
                {"classified", r.classified},
                {"validation", r.validation}};
  if (r.test_top5) entry["test_top5"] = Number(*r.test_top5);
  return entry;
}

absl::StatusOr<EvalRecord> EvalRecordFromJson(const json& entry) {
  EvalRecord r;
  JsonFields fields("progress.history", entry);
  fields.Read("steps", r.steps);
  fields.Read("epoch", r.epoch);
  fields.ReadOrNull("train_loss", r.train_loss);
  fields.ReadOrNull("train_accuracy", r.train_accuracy);
  fields.ReadOrNull("test_loss", r.test_loss);
  fields.ReadOrNull("test_accuracy", r.test_accuracy);
  fields.ReadOrNull("seconds", r.seconds);
  fields.Read("classified", r.classified);
  if (fields.Has("validation")) fields.Read("validation", r.validation);
  if (fields.Has("test_top5")) fields.ReadOrNull("test_top5", r.test_top5.emplace());
  MT_RETURN_IF_ERROR(fields.status());
  return r;
}

/// Writes the loss as text, as the ledger does: a skipped step's can be anything. The lines must be equal.
json ToJson(const FinishedStep& step) {
  const StepRecord& r = step.record;
  json entry = {{"step", r.step},
                {"epoch", r.epoch},
                {"loss", absl::StrFormat("%.17g", r.loss)},
                {"lr", Number(r.learning_rate)},
                {"samples", r.samples},
                {"seconds", Number(r.seconds)},
                {"skipped", r.skipped},
                {"generation", step.generation},
                {"world", step.world},
                {"gathered", step.gathered.count},
                {"hash", step.gathered.hash}};
  if (step.correct) entry["correct"] = *step.correct;
  return entry;
}

absl::StatusOr<FinishedStep> FinishedStepFromJson(const json& entry) {
  FinishedStep step;
  StepRecord& r = step.record;
  std::string loss;
  JsonFields fields("progress.last_step", entry);
  fields.Read("step", r.step);
  fields.Read("epoch", r.epoch);
  fields.Read("loss", loss);
  fields.ReadOrNull("lr", r.learning_rate);
  fields.Read("samples", r.samples);
  fields.ReadOrNull("seconds", r.seconds);
  fields.Read("skipped", r.skipped);
  fields.Read("generation", step.generation);
  fields.Read("world", step.world);
  fields.Read("gathered", step.gathered.count);
  fields.Read("hash", step.gathered.hash);
  if (fields.Has("correct")) fields.Read("correct", step.correct.emplace());
  if (!absl::SimpleAtod(loss, &r.loss)) fields.Complain("loss", "is not a number");
  MT_RETURN_IF_ERROR(fields.status());
  return step;
}

absl::Status ReadSums(const json& object, EpochSums& sums) {
  JsonFields fields("progress.sums", object);
  fields.ReadOrNull("loss", sums.loss);
  fields.Read("correct", sums.correct);
  fields.Read("samples", sums.samples);
  fields.ReadOrNull("seconds", sums.seconds);
  return fields.status();
}

}  // namespace

json ToJson(const RunProgress& p) {
  json history = json::array();
  for (const EvalRecord& record : p.history) history.push_back(ToJson(record));
  json object = {{"samples", p.samples},
                 {"sums",
                  {{"loss", Number(p.sums.loss)},
                   {"correct", p.sums.correct},
                   {"samples", p.sums.samples},
                   {"seconds", Number(p.sums.seconds)}}},
                 {"seconds", Number(p.seconds)},
                 {"saving", Number(p.saving)},
                 {"history", history},
                 {"confusion", p.confusion},
                 {"finished", p.finished},
                 {"schedule_steps", p.schedule_steps},
                 {"threads", p.threads},
                 {"machines", p.machines}};
  if (p.last_step) object["last_step"] = ToJson(*p.last_step);
  return object;
}

absl::StatusOr<RunProgress> RunProgressFromJson(const json& object) {
  RunProgress p;
  JsonFields fields("progress", object);
  fields.Read("samples", p.samples);
  fields.ReadOrNull("seconds", p.seconds);
  fields.ReadOrNull("saving", p.saving);
  fields.Read("finished", p.finished);
  if (fields.Has("schedule_steps")) fields.Read("schedule_steps", p.schedule_steps);
  if (fields.Has("threads")) fields.Read("threads", p.threads);
  if (fields.Has("machines")) fields.Read("machines", p.machines);
  if (fields.Has("last_step")) {
    MT_ASSIGN_OR_RETURN(p.last_step, FinishedStepFromJson(object["last_step"]));
  }
  const json* const sums = fields.Find("sums");
  const json* const history = fields.FindList("history");
  const json* const confusion = fields.FindList("confusion");
  MT_RETURN_IF_ERROR(fields.status());
  MT_RETURN_IF_ERROR(ReadSums(*sums, p.sums));
  for (const json& entry : *history) {
    MT_ASSIGN_OR_RETURN(p.history.emplace_back(), EvalRecordFromJson(entry));
  }
  for (const json& count : *confusion) {
    if (!count.is_number_integer() || count < 0) fields.Complain("confusion", "is not a list of counts");
    MT_RETURN_IF_ERROR(fields.status());
    p.confusion.push_back(count.get<int64_t>());
  }
  const auto classes = static_cast<size_t>(std::lround(std::sqrt(static_cast<double>(p.confusion.size()))));
  if (classes * classes != p.confusion.size()) {
    return absl::InvalidArgumentError("progress: \"confusion\" is not a square matrix");
  }
  return p;
}

}  // namespace mtrun::trainers
