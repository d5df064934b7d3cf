// The nodes of a job outside of its last generation that have services: one of them may be in a generation
// that follows it at another service, so a service that starts afresh at the endpoint asks them (R6). A value;
// not thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "rendezvous/authority/generation_record.h"
#include "rendezvous/authority/roster.h"
#include "rendezvous/wire/types.h"

namespace mtrun::rendezvous {

class Spares {
 public:
  using Services = std::map<std::string, std::string>;  // node id -> "HOST:PORT" of its service

  void OnOffer(const Offer& offer, const GenerationRecord& generation);
  /// The node has left or was evicted. One that is only lost may be alive, and stays until the next generation.
  void OnGone(const std::string& node_id);
  /// Takes those that an earlier service here has written down.
  void OnRemembered(const Services& services);
  /// The last generation is formed, or learned of. Those outside of an earlier one count no more.
  void OnGeneration(const Roster& roster, const GenerationRecord& generation);

  const Services& services() const { return services_; }
  /// Returns a number that tells contents apart, the same for equal ones within this process; O(1).
  uint64_t digest() const { return digest_; }
  bool operator==(const Spares&) const = default;

 private:
  void Put(const std::string& node_id, const std::string& service);

  Generation of_;  // they are outside of this one
  Services services_;
  uint64_t digest_ = 0;
};

/// Returns the digest of Spares with these contents.
uint64_t DigestOf(const Spares::Services& services);

}  // namespace mtrun::rendezvous
