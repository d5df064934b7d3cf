#include "launcher/output/failure_causes.h"

#include <algorithm>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "launcher/output/failure_message.h"

namespace mtrun::launcher {
namespace {

constexpr size_t kMaxRanges = 8;

template <typename Failure>
auto KindOf(const Failure& failure) {
  return std::tuple(failure.exit_code, failure.signal, rendezvous::WithoutNumbers(Gist(failure.message)));
}

}  // namespace

std::vector<FailureCause> FoldCauses(const std::vector<OtherFailure>& others) {
  std::vector<FailureCause> causes;
  for (const OtherFailure& other : others) {
    if (other.stopped) continue;
    const auto alike = std::find_if(causes.begin(), causes.end(), [&](const FailureCause& cause) {
      return KindOf(cause.first) == KindOf(other);
    });
    if (alike == causes.end()) {
      causes.push_back({{other.rank}, other});
    } else {
      alike->ranks.push_back(other.rank);
    }
  }
  for (FailureCause& cause : causes) std::sort(cause.ranks.begin(), cause.ranks.end());
  return causes;
}

std::vector<int> TakeAlike(const rendezvous::WorkerFailure& root_cause, std::vector<FailureCause>* causes) {
  const auto alike = std::find_if(causes->begin(), causes->end(), [&](const FailureCause& cause) {
    return KindOf(cause.first) == KindOf(root_cause);
  });
  if (alike == causes->end()) return {};
  std::vector<int> ranks = std::move(alike->ranks);
  causes->erase(alike);
  return ranks;
}

std::string RanksText(const std::vector<int>& ranks) {
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  size_t ranges = 0;
  for (size_t begin = 0, end = 0; begin < ranks.size(); begin = end, ++ranges) {
    while (end < ranks.size() && ranks[end] == ranks[begin] + static_cast<int>(end - begin)) ++end;
    if (ranges == kMaxRanges) return absl::StrCat(text, ", ... and ", ranks.size() - begin, " more");
    absl::StrAppend(&text, ranges == 0 ? "" : ", ", ranks[begin]);
    if (end - begin > 1) absl::StrAppend(&text, "-", ranks[end - 1]);
  }
  return text;
}

}  // namespace mtrun::launcher
