#include "trainers/run/records/progress_text.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/clock.h"
#include "base/terminal.h"

namespace mtrun::trainers {
namespace {

enum Field { kEpoch, kStep, kPercent, kLoss, kRate, kSpeed, kWorld, kMemory, kLeft, kFields };

/// A field of the line, with its full and its brief text.
struct Said {
  std::string full, brief;
  std::string colour = "";
};
using Line = std::array<Said, kFields>;

/// A way to shorten a line that does not fit: abbreviate or drop a field, the least important first.
struct Reduction {
  Field field;
  bool goes = false;
};
constexpr Reduction kReductions[] = {
    {kMemory},        {kWorld},       {kSpeed},        {kLeft},        {kEpoch},      {kStep},
    {kPercent},       {kLoss},        {kMemory, true}, {kWorld, true}, {kRate, true}, {kEpoch, true},
    {kPercent, true}, {kSpeed, true}, {kLeft, true},   {kLoss, true},
};

constexpr double kLongest = 1e9;  // seconds; a longer time is shown as this

std::string Clock(double seconds) {
  const auto whole = static_cast<int64_t>(std::clamp(seconds, 0.0, kLongest) + 0.5);
  if (whole < 3600) return absl::StrFormat("%d:%02d", whole / 60, whole % 60);
  return absl::StrFormat("%d:%02d:%02d", whole / 3600, whole % 3600 / 60, whole % 60);
}

Said Memory(int64_t bytes) {
  if (bytes <= 0) return {};
  constexpr double kMebi = 1 << 20, kGibi = 1 << 30;
  const auto size = static_cast<double>(bytes);
  if (size < kGibi)
    return {absl::StrFormat("%.0f MiB", size / kMebi), absl::StrFormat("%.0fM", size / kMebi)};
  return {absl::StrFormat("%.1f GiB", size / kGibi), absl::StrFormat("%.1fG", size / kGibi)};
}

Said Left(const ProgressState& s) {
  if (s.step >= s.steps || !std::isfinite(s.seconds_left)) return {};
  return {HumanDuration(FromSeconds(std::min(s.seconds_left, kLongest))) + " left",
          Clock(s.seconds_left) + " left", "36"};
}

Line LineOf(const ProgressState& s) {
  const int64_t percent = s.steps > 0 ? 100 * s.step / s.steps : 0;
  const std::string epoch = absl::StrCat(s.epoch, "/", s.epochs), step = absl::StrCat(s.step, "/", s.steps);
  const std::string rate = absl::StrFormat("lr %.4g", s.learning_rate);
  const std::string speed = absl::StrFormat("%.*f", s.images_per_second < 100 ? 1 : 0, s.images_per_second);
  Line line;
  line[kEpoch] = {"epoch " + epoch, "ep " + epoch};
  line[kStep] = {"step " + step, step, "1"};
  line[kPercent] = {absl::StrCat(percent, " %"), absl::StrCat(percent, "%"), "1"};
  line[kLoss] = {absl::StrFormat("loss %.4f", s.loss), absl::StrFormat("loss %.4g", s.loss), "33"};
  line[kRate] = {rate, rate};
  line[kSpeed] = {speed + " images/s", speed + "/s"};
  line[kWorld] = {absl::StrCat(s.world, s.world == 1 ? " worker" : " workers"), absl::StrCat(s.world, "w")};
  line[kMemory] = Memory(s.memory);
  line[kLeft] = Left(s);
  return line;
}

std::string Joined(const Line& line, const std::string& between, bool colours) {
  std::string text;
  for (const Said& said : line) {
    if (said.full.empty()) continue;
    absl::StrAppend(&text, text.empty() ? "" : between, Coloured(said.full, said.colour, colours));
  }
  return text;
}

}  // namespace

std::string ProgressText(const ProgressState& state) { return Joined(LineOf(state), "  ", false); }

std::string ProgressText(const ProgressState& state, int columns, bool colours) {
  Line line = LineOf(state);
  const auto room = static_cast<size_t>(std::max(columns, 0));
  std::string between = "  ";
  for (const Reduction& reduction : kReductions) {
    if (ColumnsOf(Joined(line, between, false)) <= room) break;
    if (reduction.goes) {
      // A single blank is better than one field less.
      if (std::exchange(between, " ") == "  " && ColumnsOf(Joined(line, between, false)) <= room) break;
      line[reduction.field].full.clear();
    } else {
      line[reduction.field].full = line[reduction.field].brief;
    }
  }
  return ClipColumns(Joined(line, between, colours), room);
}

double SmoothedLoss::Add(double loss) {
  if (!std::isfinite(loss)) return loss;
  sum_ = kKeep * sum_ + (1 - kKeep) * loss;
  weight_ = kKeep * weight_ + (1 - kKeep);
  return sum_ / weight_;
}

}  // namespace mtrun::trainers
