// The secret that agents and services of one cluster share. Whoever has it may join, read and stop its jobs,
// whoever has not may not, on this machine as on others. Free functions, any thread.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/worker_env.h"

namespace mtrun {

inline constexpr char kTokenVariable[] = "MTRUN_TOKEN";

/// "mtrun1-" and 256 random bits in hexadecimal.
std::string MakeToken();

/// kInvalidArgument for one that MakeToken has not made: whoever sees a certificate derived from it can try
/// as many guesses as he likes. With `weak` any 32 characters will do.
absl::Status CheckToken(std::string_view token, bool weak = false);

/// ~/.mtrun/token of this user.
std::string DefaultTokenPath(const EnvironmentMap& environment);

struct TokenSource {
  std::string file = {};  // "": the variable MTRUN_TOKEN, or else ~/.mtrun/token
  bool weak = false;      // see CheckToken
};
enum class MissingToken {
  kMake,          // in ~/.mtrun/token, for its owner only
  kMakeForNodes,  // the same where others are to find it; in a pod, whose home no other pod has, as kRefuse
  kRefuse,        // for who only asks: a fresh one would open nothing
};

/// The cluster's token; surrounding white space does not count. A file that was given must exist.
/// kInvalidArgument as CheckToken, kPermissionDenied for a file that others may read (one of root's may be
/// read by its group), kNotFound for none: each says what to do, in a pod with the lines of the manifest.
absl::StatusOr<std::string> LoadToken(const TokenSource& source, MissingToken missing,
                                      const EnvironmentMap& environment = CurrentEnvironment());

}  // namespace mtrun
