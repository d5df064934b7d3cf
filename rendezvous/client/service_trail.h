// The services to which a client puts a question: those that the user named, then those that these name
// because a job has moved there. All get the same credentials. Pure; a value.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace mtrun::rendezvous {

class ServiceTrail {
 public:
  static constexpr int kMaxHops = 3;

  explicit ServiceTrail(std::vector<std::string> endpoints) : endpoints_(std::move(endpoints)) {}

  /// Returns the next service to ask, "" after the last one.
  std::string Next();
  /// Returns all services that are left, to ask them at once.
  std::vector<std::string> Rest();
  /// Notes that the service at `asked` has named `place` as that of the job, "" for none. It is next, unless
  /// it was asked before or kMaxHops others have been followed. A loopback address is one of `asked`'s
  /// machine.
  void Follow(const std::string& asked, const std::string& place);

 private:
  std::vector<std::string> endpoints_;
  size_t next_ = 0;
  int hops_ = 0;
};

}  // namespace mtrun::rendezvous
