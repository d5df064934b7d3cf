#include "trainers/run/records/tensorboard_log.h"

#include <chrono>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/process_memory.h"
#include "base/status_macros.h"
#include "datasets/images/png.h"
#include "trainers/run/records/matrix_picture.h"

namespace mtrun::trainers {
namespace {

using tensorboard::Scalar;

constexpr Duration kGaugeEvery = std::chrono::seconds(1);

double WallClock() { return static_cast<double>(WallClockNs()) * 1e-9; }

}  // namespace

absl::StatusOr<TensorboardLog> TensorboardLog::Open(const std::string& folder, int64_t next) {
  MT_ASSIGN_OR_RETURN(tensorboard::EventFile file,
                      tensorboard::EventFile::Create(absl::StrCat(folder, "/tb"), next));
  return TensorboardLog(std::move(file));
}

void TensorboardLog::Add(const FinishedStep& step, TimePoint now) {
  const StepRecord& record = step.record;
  std::vector<Scalar> scalars = {{"loss/train", record.loss},
                                 {"optim/learning_rate", record.learning_rate},
                                 {"time/step", record.seconds}};
  if (step.correct && record.samples > 0) {
    scalars.push_back(
        {"accuracy/train", static_cast<double>(*step.correct) / static_cast<double>(record.samples)});
  }
  if (step.gradient_norm) scalars.push_back({"optim/gradient_norm", *step.gradient_norm});
  if (step.loss_scale) scalars.push_back({"optim/loss_scale", *step.loss_scale});
  if (step.gpu_busy_percent)
    scalars.push_back({"gpu/utilization_percent", static_cast<double>(*step.gpu_busy_percent)});
  if (step.gpu_memory)
    scalars.push_back({"gpu/memory_mib", static_cast<double>(*step.gpu_memory) / (1 << 20)});
  file_.Add(WallClock(), record.step, scalars);
  ++sums_.steps;
  sums_.samples += record.samples;
  sums_.seconds += record.seconds;
  sums_.times += step.times;
  if (now - gauged_ >= kGaugeEvery || generation_ != step.generation) AddGauges(step, now);
}

void TensorboardLog::AddGauges(const FinishedStep& step, TimePoint now) {
  const auto mean = [steps = static_cast<double>(sums_.steps)](double sum) { return sum / steps; };
  std::vector<Scalar> scalars = {{"time/compute", mean(sums_.times.compute)},
                                 {"time/wait", mean(sums_.times.wait)},
                                 {"time/data", mean(sums_.times.data)},
                                 {"run/world_size", static_cast<double>(step.world)},
                                 {"run/generation", static_cast<double>(step.generation)},
                                 {"run/memory_mib", static_cast<double>(ResidentBytes()) / (1 << 20)}};
  if (sums_.seconds > 0) {
    scalars.push_back({"throughput/images_per_second", static_cast<double>(sums_.samples) / sums_.seconds});
  }
  file_.Add(WallClock(), step.record.step, scalars);
  sums_ = {};
  gauged_ = now;
  generation_ = step.generation;
}

void TensorboardLog::Add(const EvalRecord& record) {
  const bool test = !record.validation;
  std::vector<Scalar> scalars = {{test ? "loss/test" : "loss/validation", record.test_loss},
                                 {"loss/train_epoch", record.train_loss}};
  if (record.classified) {
    scalars.push_back({test ? "accuracy/test" : "accuracy/validation", record.test_accuracy});
    scalars.push_back({"accuracy/train_epoch", record.train_accuracy});
  }
  if (record.test_top5)
    scalars.push_back({test ? "accuracy/test_top5" : "accuracy/validation_top5", *record.test_top5});
  file_.Add(WallClock(), record.steps, scalars);
}

void TensorboardLog::AddMatrix(int64_t steps, const ConfusionMatrix& matrix) {
  if (matrix.classes() == 0) return;
  AddPicture("confusion", steps, datasets::EncodePng(DrawMatrix(matrix)));
}

void TensorboardLog::AddPicture(std::string_view tag, int64_t step, std::string_view png) {
  const auto size = datasets::PngSize(png);
  if (!size.ok()) return;
  file_.Add(WallClock(), step, tensorboard::Picture{tag, size->height, size->width, png});
}

void TensorboardLog::AddSettings(int64_t step, const std::string& yaml) {
  file_.Add(WallClock(), step, tensorboard::Text{"settings", absl::StrCat("```\n", yaml, "```\n")});
}

}  // namespace mtrun::trainers
