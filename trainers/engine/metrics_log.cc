#include "trainers/engine/metrics_log.h"

#include <fcntl.h>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/log.h"
#include "base/status_macros.h"

namespace mtrun::engine {
namespace {

constexpr Duration kFlushEvery = std::chrono::seconds(1);
constexpr size_t kFlushBytes = 256 << 10;

/// Every digit of a double; JSON has no word for what is not finite but null.
std::string Full(double value) { return std::isfinite(value) ? absl::StrFormat("%.17g", value) : "null"; }

}  // namespace

std::string ToLine(const StepRecord& r) {
  return absl::StrFormat("{\"step\":%d,\"epoch\":%d,\"loss\":%s,\"lr\":%s,\"samples\":%d,\"seconds\":%.6g}\n",
                         r.step, r.epoch, Full(r.loss), Full(r.learning_rate), r.samples, r.seconds);
}

std::string ToLine(const EvalRecord& r) {
  return absl::StrFormat(
      "{\"eval\":%d,\"steps\":%d,\"train_loss\":%s,\"train_accuracy\":%s,\"test_loss\":%s,\"test_accuracy\":%"
      "s,"
      "\"seconds\":%.6g}\n",
      r.epoch, r.steps, Full(r.train_loss), Full(r.train_accuracy), Full(r.test_loss), Full(r.test_accuracy),
      r.seconds);
}

absl::StatusOr<MetricsLog> MetricsLog::Create(const std::string& path) {
  UniqueFd file(open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0666));
  if (!file.valid()) return ErrnoStatus(errno, absl::StrCat("open ", path));
  return MetricsLog(path, std::move(file));
}

MetricsLog::~MetricsLog() {
  if (!file_.valid()) return;  // moved from
  if (const absl::Status status = Flush(); !status.ok()) log::Error(status.ToString());
}

absl::Status MetricsLog::Write(const StepRecord& record, TimePoint now) {
  pending_ += ToLine(record);
  if (now - flushed_ < kFlushEvery && pending_.size() < kFlushBytes) return absl::OkStatus();
  flushed_ = now;
  return Flush();
}

absl::Status MetricsLog::Write(const EvalRecord& record) {
  pending_ += ToLine(record);
  return Flush();
}

absl::Status MetricsLog::Flush() {
  if (pending_.empty()) return absl::OkStatus();
  const absl::Status status = WriteAll(file_.get(), pending_);
  pending_.clear();
  return Annotate(status, path_);
}

}  // namespace mtrun::engine
