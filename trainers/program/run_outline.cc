#include "trainers/program/run_outline.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "base/counted.h"
#include "base/string_view.h"

namespace mtrun::trainers {
namespace {

std::string DataText(const RunOutline& o) {
  const std::string size =
      absl::StrCat(o.images.varies ? "up to " : "", o.images.height, "x", o.images.width);
  std::string text = absl::StrCat(o.data, ": ", Counted(o.train_images, "training image"), " of ", size);
  if (o.classes > 0) absl::StrAppend(&text, " in ", o.classes, o.classes == 1 ? " class" : " classes");
  absl::StrAppend(&text, "; ", Counted(o.test_images, "image"), o.test_images == 1 ? " is" : " are",
                  " evaluated after each epoch");
  if (o.final_images > 0) absl::StrAppend(&text, ", ", o.final_images, " tested at the end");
  return text;
}

std::string NetworkText(const RunOutline& o) {
  const std::string of = o.trained == o.parameters ? "" : absl::StrCat(", ", o.trained, " of them trained");
  return absl::StrCat(Counted(o.parameters, "parameter"), of, "; ", o.resolved.Describe(), "; starts from ",
                      o.weights.empty() ? "random weights" : o.weights);
}

std::string StepsText(const RunOutline& o) {
  const bool cut = o.length.steps < o.length.epochs * o.length.steps_per_epoch;
  return absl::StrCat(o.length.steps_per_epoch, " an epoch, each of ", Counted(o.plan.global_batch, "image"),
                      " in micro-batches of ", o.plan.micro_batch, "; ", o.length.steps, " in all, ",
                      cut ? absl::StrCat("--max_steps, within epoch ", o.length.EpochOf(o.length.steps),
                                         " of ", o.length.epochs)
                          : Counted(o.length.epochs, "epoch"));
}

std::string FolderText(const RunOutline& o) {
  if (!o.continued) return absl::StrCat(o.folder, ": a new run begins");
  return absl::StrCat(o.folder, ": the run continues after step ", *o.continued,
                      *o.continued >= o.length.steps ? ", where it has ended: --epochs extends it" : "");
}

std::string CautionText(const RunOutline& o) {
  std::string text;
  for (const std::string& caution : CautionsOf(o.length, o.schedule, o.plan.global_batch, o.train_images))
    absl::StrAppend(&text, "  caution        ", caution, "\n");
  return text;
}

}  // namespace

std::string LearningRateText(const LrSchedule& schedule, int64_t steps) {
  std::set<int64_t> shown = {0, steps / 2, std::max<int64_t>(steps - 1, 0)};
  if (schedule.kind == LrSchedule::Kind::kOneCycle) {
    shown.insert(std::llround(schedule.peak_at * static_cast<double>(schedule.steps + 1)) - 1);
  } else {
    shown.insert(schedule.warmup_steps);
  }
  std::vector<std::string> points;
  for (const int64_t step : shown) {
    if (step < 0 || step >= std::max<int64_t>(steps, 1)) continue;
    points.push_back(absl::StrFormat("%.4g at step %d", LearningRate(schedule, step), step));
  }
  const bool same = schedule.kind == LrSchedule::Kind::kConstant && schedule.warmup_steps == 0;
  if (same) return absl::StrFormat("constant: %.4g", schedule.base);
  return absl::StrCat(View(LrScheduleKindName(schedule.kind)), ": ", absl::StrJoin(points, ", "));
}

std::string OutlineText(const RunOutline& o) {
  return absl::StrCat(o.program, ", what this command trains:\n",                               //
                      "  data           ", DataText(o), "\n",                                   //
                      "  network        ", NetworkText(o), "\n",                                //
                      "  steps          ", StepsText(o), "\n",                                  //
                      "  learning rate  ", LearningRateText(o.schedule, o.length.steps), "\n",  //
                      "  run folder     ", FolderText(o), "\n", CautionText(o));
}

}  // namespace mtrun::trainers
