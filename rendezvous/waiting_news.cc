#include "rendezvous/waiting_news.h"

#include "absl/strings/str_cat.h"
#include "rendezvous/until.h"

namespace mtrun::rendezvous {

std::vector<size_t> WaitingNews::Choose(const std::vector<const std::string*>& told, const std::string& text,
                                        size_t nodes, TimePoint now) {
  const bool many = nodes > kFewNodes, paced = many && now < next_;
  waits_ = false;
  std::vector<size_t> chosen;
  for (size_t i = 0; i < told.size(); ++i) {
    if (*told[i] == text) continue;
    const bool again = !told[i]->empty();  // the first news comes at once
    waits_ = waits_ || (paced && again);
    if (paced && again) continue;
    if (many && again) next_ = now + kPause;
    chosen.push_back(i);
  }
  return chosen;
}

std::string WaitingNews::Describe(TimePoint now) const { return absl::StrCat("news ", Until(due(), now)); }

}  // namespace mtrun::rendezvous
