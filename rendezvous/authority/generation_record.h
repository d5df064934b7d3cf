// The newest generation that a service knows of its job: its members, whether it runs, which members have
// finished, and the numbers that were given out (docs/protocol.md, R1). A value; not thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>

#include "rendezvous/authority/member_index.h"
#include "rendezvous/wire/job_settings.h"
#include "rendezvous/wire/types.h"

namespace mtrun::rendezvous {

/// Returns the incarnation of a run of the job that begins with this seed; not 0.
uint64_t NewIncarnation(uint64_t seed, const std::string& job_id);

/// Invariants: no number above the highest known one; only members finish, and only while it runs.
class GenerationRecord {
 public:
  bool known() const { return last_.has_value(); }  // one was formed, adopted or learned of
  bool running() const { return running_; }
  const std::optional<Assignment>& last() const { return last_; }
  /// Returns its number and id, {0, 0} for none.
  Generation id() const { return last_ ? last_->generation : Generation{}; }
  uint64_t number() const { return number_; }  // the highest one known
  /// True if a member of the last generation has a service of its own.
  bool has_services() const { return has_services_; }
  /// Returns the member of the last generation, or null.
  const Member* FindLast(const std::string& node_id) const;
  /// Returns the member of the running generation, or null.
  const Member* FindRunning(const std::string& node_id) const;

  /// Notes that another service has given out this number.
  void Saw(uint64_t number);
  /// Returns the next number, with an id derived from it, the seed and the job.
  Generation Next(uint64_t seed, const std::string& job_id);
  /// True if it may replace the last generation: it is newer, or is the one known only from others.
  bool IsNews(const Generation& generation) const;
  /// True if a member may run it although it is not the last generation here: it is news, or has the number of
  /// one known only from others, which may never have run.
  bool MayRunInstead(const Generation& generation) const;
  /// True if it is valid and within the job's bounds.
  static bool Fits(const Assignment& last, const JobSettings& settings);
  /// True if it is the last generation known here, even if a newer number has been given out elsewhere.
  bool MayBeLast(const Assignment& last, const JobSettings& settings) const;
  /// True if a generation that a member says it runs can be adopted: it is within the job's bounds, and is
  /// news or has the number of one known only from others.
  bool CanAdopt(const Assignment& held, const std::string& reporter, const JobSettings& settings) const;
  /// Takes over the last generation that ran, as reported by a node outside of it or by one that left it.
  void HearOf(Assignment assignment);
  void Begin(Assignment assignment);
  /// Notes that a member of a generation known only from others is out of it: later reports are too late.
  void RuleOut() { heard_of_ = false; }
  /// Forgets the generation, of which no member is left; the next one counts as a first one.
  void Forget();
  void Stop();
  /// Stops the generation because of broken collectives; the failure behind it may still be reported.
  void Break();
  /// True if this generation broke and the failure behind it is still expected.
  bool Broke(const Generation& generation) const { return broken_ == generation; }
  void ExplainBreak() { broken_.reset(); }

  /// Returns false if the node had finished before. `final`: the result is safe, later deaths do not matter.
  bool Finish(const std::string& node_id, bool final = false);
  bool HasFinished(const std::string& node_id) const { return finished_.contains(node_id); }
  bool AllFinished() const { return running_ && finished_.size() == last_->members.size(); }
  const std::set<std::string>& finished() const { return finished_; }  // including nodes that have gone since
  bool result_safe() const { return result_safe_; }

  std::string Describe() const;
  bool operator==(const GenerationRecord&) const = default;

 private:
  void Take(Assignment assignment);

  uint64_t number_ = 0;
  std::optional<Assignment> last_;
  MemberIndex index_;          // index of last_
  bool has_services_ = false;  // true if a member of last_ has one
  bool running_ = false;
  bool heard_of_ = false;  // the last one is known from others and may still run
  std::set<std::string> finished_;
  bool result_safe_ = false;
  std::optional<Generation> broken_;
};

}  // namespace mtrun::rendezvous
