#include "trainers/step/fault_plan.h"

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <stdexcept>

#include <unistd.h>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/status_macros.h"

namespace mtrun::trainers {
namespace {

constexpr std::pair<std::string_view, Fault::At> kPlaces[] = {
    {"setup", Fault::At::kSetUp},       {"forward", Fault::At::kForward},
    {"backward", Fault::At::kBackward}, {"allreduce", Fault::At::kAllReduce},
    {"read", Fault::At::kRead},         {"apply", Fault::At::kApply},
    {"save", Fault::At::kSave},         {"eval", Fault::At::kEvaluate}};
constexpr std::pair<std::string_view, Fault::Action> kActions[] = {{"kill", Fault::Action::kKill},
                                                                   {"stop", Fault::Action::kStop},
                                                                   {"leave", Fault::Action::kLeave},
                                                                   {"exit", Fault::Action::kExit},
                                                                   {"throw", Fault::Action::kThrow}};

template <typename Value, size_t n>
std::optional<Value> Lookup(const std::pair<std::string_view, Value> (&table)[n], std::string_view name) {
  for (const auto& [key, value] : table) {
    if (key == name) return value;
  }
  return std::nullopt;
}

template <typename Value, size_t n>
std::string_view NameIn(const std::pair<std::string_view, Value> (&table)[n], Value wanted) {
  for (const auto& [key, value] : table) {
    if (value == wanted) return key;
  }
  return "?";
}

absl::Status SetField(Fault& fault, absl::string_view field) {
  const std::pair<absl::string_view, absl::string_view> parts =
      absl::StrSplit(field, absl::MaxSplits('=', 1));
  const std::string_view value(parts.second.data(), parts.second.size());
  bool good = false;
  if (parts.first == "rank") good = absl::SimpleAtoi(parts.second, &fault.rank);
  if (parts.first == "step") good = absl::SimpleAtoi(parts.second, &fault.step);
  if (parts.first == "at") {
    const auto place = Lookup(kPlaces, value);
    good = place.has_value();
    if (good) fault.at = *place;
  }
  if (parts.first == "do") {
    const auto action = Lookup(kActions, value);
    good = action.has_value();
    if (good) fault.action = *action;
  }
  if (good) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("MTRUN_FAULTS: \"", field,
                   "\" is not rank=N, step=N, at=setup|forward|backward|allreduce|read|apply|save|eval or "
                   "do=kill|stop|leave|exit|throw"));
}

}  // namespace

absl::StatusOr<std::vector<Fault>> ParseFaults(std::string_view text) {
  std::vector<Fault> faults;
  const absl::string_view all(text.data(), text.size());
  for (const absl::string_view item : absl::StrSplit(all, ';', absl::SkipWhitespace())) {
    Fault fault;
    for (const absl::string_view field : absl::StrSplit(item, ' ', absl::SkipWhitespace())) {
      MT_RETURN_IF_ERROR(SetField(fault, field));
    }
    faults.push_back(fault);
  }
  return faults;
}

void FaultPlan::Fire(Fault::At at, int64_t step) {
  for (size_t i = 0; i < faults_.size(); ++i) {
    const Fault fault = faults_[i];
    if (fault.at != at || fault.step != step) continue;
    faults_.erase(faults_.begin() + static_cast<std::ptrdiff_t>(i));
    const std::string text = absl::StrCat(
        "fault fired: rank=", fault.rank, " step=", step, " at=", std::string(NameIn(kPlaces, at)),
        " do=", std::string(NameIn(kActions, fault.action)), " pid=", getpid(), "\n");
    std::fputs(text.c_str(), stderr);
    switch (fault.action) {
      case Fault::Action::kKill:
        raise(SIGKILL);
        break;
      case Fault::Action::kStop:
        raise(SIGSTOP);
        break;
      case Fault::Action::kLeave:
        raise(SIGTERM);
        break;
      case Fault::Action::kExit:
        _exit(1);
      case Fault::Action::kThrow:
        throw std::runtime_error("injected fault: the device has failed");
    }
    return;
  }
}

}  // namespace mtrun::trainers
