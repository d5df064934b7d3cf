#include "rendezvous/job/waiting_news.h"

#include "absl/strings/str_cat.h"
#include "rendezvous/wire/until.h"

namespace mtrun::rendezvous {

std::set<std::string> WaitingNews::Choose(const std::map<std::string, std::set<std::string>>& told,
                                          const std::string& text, size_t nodes, TimePoint now) {
  const bool many = nodes > kFewNodes, paced = many && now < next_;
  const auto first = told.find("");
  std::set<std::string> chosen;
  if (first != told.end() && !text.empty()) chosen = first->second;  // the first text is sent at once
  const size_t older = told.size() - told.count("") - (text.empty() ? 0 : told.count(text));
  waits_ = paced && older > 0;
  if (paced || older == 0) return chosen;
  if (many) next_ = now + PauseAmong(nodes);
  for (const auto& [before, node_ids] : told) {
    if (before != text) chosen.insert(node_ids.begin(), node_ids.end());
  }
  return chosen;
}

std::string WaitingNews::Describe(TimePoint now) const { return absl::StrCat("news ", Until(due(), now)); }

}  // namespace mtrun::rendezvous
