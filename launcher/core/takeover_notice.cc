#include "launcher/core/takeover_notice.h"

#include "absl/strings/str_cat.h"

namespace mtrun::launcher {

std::string DescribeTakeover(const rendezvous::ServiceHost& before, const rendezvous::ServiceHost& now,
                             uint64_t own, bool insecure) {
  const bool here = !now.service.empty() && own != 0 && now.presence.id == own;
  if (!here || now.service == before.service) return "";
  return absl::StrCat("this node serves the job's rendezvous now; ask it with: mtrun ",
                      insecure ? "--insecure " : "", "--status ", now.service);
}

}  // namespace mtrun::launcher
