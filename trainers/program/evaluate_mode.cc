// --evaluate: a trained network on the test images of a data set.
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/log.h"
#include "base/posix.h"
#include "base/standard_output.h"
#include "base/status_macros.h"
#include "nlohmann/json.hpp"
#include "trainers/membership/assignment.h"
#include "trainers/membership/drain.h"
#include "trainers/membership/job_membership.h"
#include "trainers/program/modes.h"
#include "trainers/program/notable_file.h"
#include "trainers/program/trained_network.h"
#include "trainers/run/records/progress.h"
#include "trainers/run/records/summary.h"
#include "trainers/step/evaluate.h"

namespace mtrun::trainers {
namespace {

using datasets::PackedSplit;

const char* OrientationText(const std::string& orientation) {
  return orientation == datasets::kAsStored ? "as stored in their files" : "turned upright";
}

absl::Status CheckClasses(const WeightsSource& source, const PackedSplit& data, const std::string& folder) {
  const absl::StatusOr<Description> known = DescriptionOf(source.metadata);
  if (absl::IsNotFound(known.status())) return absl::OkStatus();
  if (!known.ok()) return Annotate(known.status(), source.file);
  const auto& theirs = known->classes;
  const auto& ours = data.class_names();
  for (size_t i = 0; i < std::max(theirs.size(), ours.size()); ++i) {
    const std::string was = i < theirs.size() ? theirs[i] : "none", is = i < ours.size() ? ours[i] : "none";
    if (was == is) continue;
    return absl::InvalidArgumentError(absl::StrCat("class ", i, " of ", folder, " is \"", is, "\", but ",
                                                   source.what, " was trained with \"", was, "\""));
  }
  const std::string& ours_turned = data.orientation();
  if (!known->images.orientation.empty() && !ours_turned.empty() && known->images.orientation != ours_turned)
    log::Warning(folder, " has images ", OrientationText(ours_turned), ", but ", source.what,
                 " was trained with images ", OrientationText(known->images.orientation),
                 ": import it with --exif=", known->turns() ? "true" : "false");
  return absl::OkStatus();
}

nlohmann::json EvaluationJson(const Run& run, const TrainedNetwork& network, const RunReport& report,
                              int64_t images) {
  nlohmann::json json = {{"program", run.program.name},
                         {"weights", network.source.what},
                         {"data", run.options.data},
                         {"images", images},
                         {"loss", report.test_loss}};
  if (report.class_names.empty()) return json;
  json["accuracy"] = report.matrix.Accuracy();
  json["correct"] = report.matrix.correct();
  if (report.test_top5) json["top5"] = *report.test_top5;
  json["class_names"] = report.class_names;
  json["confusion_rows_actual"] = nlohmann::json::array();
  const auto& counts = report.matrix.counts();
  const auto side = static_cast<std::ptrdiff_t>(report.matrix.classes());
  for (std::ptrdiff_t row = 0; row < side; ++row) {
    json["confusion_rows_actual"].push_back(
        std::vector<int64_t>(counts.begin() + row * side, counts.begin() + (row + 1) * side));
  }
  json["notable"] = NotableJson(report.notable, nullptr);
  return json;
}

absl::Status Tell(const Run& run, const TrainedNetwork& network, const Evaluation& evaluation,
                  int64_t images) {
  RunReport report;
  report.program = run.program.name;
  if (network.task->classes() > 0) report.class_names = network.description.classes;
  report.matrix = evaluation.matrix;
  report.test_loss = evaluation.loss;
  report.test_top5 = evaluation.top5;
  report.notable = evaluation.notable;
  const std::string accuracy = report.class_names.empty()
                                   ? ""
                                   : absl::StrFormat(", accuracy %.2f %% (%d correct)",
                                                     100 * report.matrix.Accuracy(), report.matrix.correct());
  const std::string top5 =
      report.test_top5 ? absl::StrFormat(", top-5 %.2f %%", 100 * *report.test_top5) : "";
  const ProgressLine line(/*quiet=*/false, ScreenOf(run.environment, isatty(STDOUT_FILENO) == 1));
  MT_RETURN_IF_ERROR(PrintOut(absl::StrFormat(
      "%s: %s\n%d images of %s: loss %.6f%s%s\n%s", run.program.name, network.source.what, images,
      run.options.data, report.test_loss, accuracy, top5, ClassesText(report, line.columns().value_or(0)))));
  const std::string out = run.settings.Text("out");
  return out.empty() ? absl::OkStatus()
                     : WriteFileAtomically(out, EvaluationJson(run, network, report, images).dump(1) + "\n");
}

/// Evaluates with all members of the job, and starts over if one of them is lost. Rank 0 prints the result
/// once, before any member reports that it is done.
absl::Status EvaluateTogether(const Run& run, const TrainedNetwork& network, const PackedSplit& data,
                              Membership& membership) {
  const auto batches = MakeImageBatches(data, network.batch);
  const int64_t wanted = run.options.eval_images;
  const int64_t size = wanted > 0 ? std::min(wanted, data.size()) : data.size();
  bool told = false;
  while (true) {
    const Assignment& who = membership.assignment();
    const EvaluationPart part{.size = size,
                              .rank = who.rank,
                              .world_size = who.world_size,
                              .precision = run.precision,
                              .image_size = run.options.test_image_size()};
    absl::StatusOr<Evaluation> result =
        Evaluate(*network.task, *batches, part, membership.group(), [&membership] {
          membership.ReportProgress(0, 0, 0);
          return absl::OkStatus();
        });
    absl::Status status = result.status();
    if (status.ok() && who.rank == 0 && !std::exchange(told, true))
      MT_RETURN_IF_ERROR(Tell(run, network, *result, size));
    if (status.ok()) status = membership.ReportDone(0);
    if (status.ok()) return status;
    if (!membership.elastic() || !MeansRegroup(status)) return status;
    MT_RETURN_IF_ERROR(membership.Regroup(status));
  }
}

}  // namespace

absl::StatusOr<int> EvaluateMode(Run& run) {
  MT_ASSIGN_OR_RETURN(const WeightsSource source, OpenSource(run, run.settings.Text("evaluate")));
  MT_ASSIGN_OR_RETURN(const PackedSplit data, OpenTest(run.options.data));
  MT_RETURN_IF_ERROR(CheckClasses(source, data, run.options.data));
  MT_ASSIGN_OR_RETURN(const TrainedNetwork network,
                      MakeTrained(run, source, ShapeOf(data), data.class_names()));
  if (Asked(run.settings, "check")) return 0;
  CatchDrainSignals();
  run.joined = true;
  MT_ASSIGN_OR_RETURN(const auto membership,
                      JobMembership::Make(run.environment, network.batch.device, ProtectionOf(run.options)));
  const absl::Status joined = membership->Join(run.environment);
  if (absl::IsCancelled(joined)) return 128 + (DrainSignal() != 0 ? DrainSignal() : SIGTERM);
  MT_RETURN_IF_ERROR(joined);
  MT_RETURN_IF_ERROR(EvaluateTogether(run, network, data, *membership));
  return 0;
}

}  // namespace mtrun::trainers
