#include "base/nearest_name.h"

#include <algorithm>

#include "absl/strings/str_split.h"
#include "base/string_view.h"

namespace mtrun {

std::string NearestName(std::string_view name, const std::vector<std::string>& candidates) {
  std::string best;
  size_t best_distance = std::max<size_t>(2, name.size() / 3) + 1;
  for (const std::string& candidate : candidates) {
    // Levenshtein distance with one row.
    std::vector<size_t> row(candidate.size() + 1);
    for (size_t j = 0; j < row.size(); ++j) row[j] = j;
    for (size_t i = 1; i <= name.size(); ++i) {
      size_t diagonal = row[0];
      row[0] = i;
      for (size_t j = 1; j < row.size(); ++j) {
        const size_t substitute = diagonal + (name[i - 1] == candidate[j - 1] ? 0 : 1);
        diagonal = row[j];
        row[j] = std::min({row[j] + 1, row[j - 1] + 1, substitute});
      }
    }
    if (row.back() < best_distance) {
      best_distance = row.back();
      best = candidate;
    }
  }
  return best;
}

std::vector<std::string> RelatedNames(std::string_view name, const std::vector<std::string>& candidates) {
  constexpr size_t kWord = 4;  // shorter words ("per", "no") carry no meaning
  const auto akin = [](absl::string_view a, absl::string_view b) {
    const size_t shorter = std::min(a.size(), b.size());
    return shorter >= kWord && a.substr(0, shorter) == b.substr(0, shorter);
  };
  std::vector<std::string> related;
  for (const std::string& candidate : candidates) {
    bool shared = false;
    for (absl::string_view wanted : absl::StrSplit(View(name), '_')) {
      for (absl::string_view word : absl::StrSplit(candidate, '_')) shared = shared || akin(wanted, word);
    }
    if (shared && related.size() < 3) related.push_back(candidate);
  }
  return related;
}

}  // namespace mtrun
