#include "launcher/net/name_wait.h"

#include "absl/strings/str_cat.h"

namespace mtrun::launcher {

absl::StatusOr<std::string> NameWait::OnFailure(const absl::Status& why, TimePoint now) {
  if (now - began_ >= patience_) {
    return absl::Status(why.code(),
                        absl::StrCat(why.message(), ", for ", HumanDuration(now - began_),
                                     " (--rdzv_conf read_timeout): is the name in --rdzv_endpoint right?"));
  }
  if (now < say_) return std::string();
  say_ = now + kSayEvery;
  return absl::StrCat(why.message(), "; trying again for ", HumanDuration(patience_ - (now - began_)));
}

}  // namespace mtrun::launcher
