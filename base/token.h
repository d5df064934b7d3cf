// The secret shared by the agents and services of one cluster. Its holders may join, read and stop the
// cluster's jobs; others may not, even on the same machine. Free functions, any thread.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/worker_env.h"

namespace mtrun {

inline constexpr char kTokenVariable[] = "MTRUN_TOKEN";

/// Returns "mtrun1-" and 256 random bits in hexadecimal.
std::string MakeToken();

/// Checks that MakeToken made the token, and returns kInvalidArgument if not: a client that sees a derived
/// certificate can test unlimited guesses. If `weak`, any 32 characters are accepted.
absl::Status CheckToken(std::string_view token, bool weak = false);

/// Returns ~/.mtrun/token of this user.
std::string DefaultTokenPath(const EnvironmentMap& environment);

struct TokenSource {
  std::string file = {};  // "": the variable MTRUN_TOKEN, or else ~/.mtrun/token
  bool weak = false;      // see CheckToken
};
enum class MissingToken {
  kMake,          // make one in ~/.mtrun/token, readable by its owner only
  kMakeForNodes,  // likewise, for other nodes to find; in a pod like kRefuse, because no other pod shares its
                  // home
  kRefuse,        // for clients that only query: a new token would open nothing
};

/// Returns the cluster's token without surrounding white space. An explicitly given file must exist.
/// kInvalidArgument as in CheckToken; kPermissionDenied if others may read the file (group-readable is fine
/// for root's file); kNotFound if no token exists. Each error says what to do, in a pod with manifest lines.
absl::StatusOr<std::string> LoadToken(const TokenSource& source, MissingToken missing,
                                      const EnvironmentMap& environment = CurrentEnvironment());

}  // namespace mtrun
