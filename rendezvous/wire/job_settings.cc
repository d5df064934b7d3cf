#include "rendezvous/wire/job_settings.h"

#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace mtrun::rendezvous {
namespace {

struct Shown {
  std::string name, value;
};

std::string Show(const std::string& text) { return text; }
std::string Show(bool truth) { return truth ? "true" : "false"; }
std::string Show(int number) { return absl::StrCat(number); }
std::string Show(Duration duration) { return absl::StrCat(ToSeconds(duration)); }
std::string Show(const std::vector<std::string>& texts) { return absl::StrJoin(texts, ","); }

std::string TakeoverOf(const JobSettings& settings) {
  if (settings.takeover_any) return "any";
  return settings.takeover_majority || settings.endpoints.size() > 1 ? "majority" : "from a dead host";
}

/// Describes the fields by the flags and keys that set them.
std::vector<Shown> ShowFields(const JobSettings& settings) {
  std::vector<Shown> all;
  JobSettings::Fields(settings, [&](std::string name, const auto& value, auto...) {
    if (name == "endpoints") name = "rdzv_endpoint";
    if (name == "takeover_any") return;  // one key for both
    all.push_back({std::move(name), Show(value)});
    if (all.back().name == "takeover_majority") all.back() = {"takeover", TakeoverOf(settings)};
    if (all.back().name == "program" && settings.program.empty()) all.back().value = "any";
  });
  return all;
}

}  // namespace

Duration HeartbeatInterval(int max_nodes) {
  constexpr Duration kOften = std::chrono::milliseconds(500);
  constexpr int64_t kHeardPerSecond = 8000;
  return std::max(kOften, Duration(std::chrono::seconds(max_nodes)) / kHeardPerSecond);
}

std::vector<std::string> DifferingSettings(const JobSettings& job, const JobSettings& here) {
  const std::vector<Shown> in_job = ShowFields(job), in_agent = ShowFields(here);
  std::vector<std::string> texts;
  for (size_t i = 0; i < in_job.size(); ++i) {
    if (in_job[i].value == in_agent[i].value) continue;
    const bool other_job = in_job[i].name == "program";
    texts.push_back(absl::StrCat(in_job[i].name, " is ", in_agent[i].value, " here, ", in_job[i].value,
                                 " in the job",
                                 other_job ? " (another job needs an --rdzv_id of its own)" : ""));
  }
  return texts;
}

}  // namespace mtrun::rendezvous
