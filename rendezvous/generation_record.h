// The newest generation that a service knows of its job: who is in it, whether it runs, who has finished; and
// the numbers that were given out. A value; not thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "rendezvous/job_settings.h"
#include "rendezvous/member_index.h"
#include "rendezvous/types.h"

namespace mtrun::rendezvous {

/// Of a run of the job that begins with this seed; not 0.
uint64_t NewIncarnation(uint64_t seed, const std::string& job_id);

/// Invariants: no number above the highest one known; only members finish, and only while it runs.
class GenerationRecord {
 public:
  bool known() const { return last_.has_value(); }  // one was formed, adopted or heard of
  bool running() const { return running_; }
  const std::optional<Assignment>& last() const { return last_; }
  /// Its name, {0, 0} for none.
  Generation id() const { return last_ ? last_->generation : Generation{}; }
  uint64_t number() const { return number_; }  // the highest one known
  /// A member of the last generation has a service of its own.
  bool has_services() const { return has_services_; }
  /// Null unless it is in the last generation.
  const Member* FindLast(const std::string& node_id) const;
  /// Null unless it is in the generation that runs.
  const Member* FindRunning(const std::string& node_id) const;

  /// Another service has given out this number.
  void Saw(uint64_t number);
  /// The next number, and an id that follows from it, the seed and the job.
  Generation Next(uint64_t seed, const std::string& job_id);
  /// May take the place of the last one: it is newer, or the one that was only heard of.
  bool IsNews(const Generation& generation) const;
  /// It is the last one that is known here, though a newer one may have been given out elsewhere.
  bool MayBeLast(const Assignment& last, const JobSettings& settings) const;
  /// A member says that it runs it: it is news, or has the number of one that was only heard of, and within
  /// the job's bounds.
  bool CanAdopt(const Assignment& held, const std::string& reporter, const JobSettings& settings) const;
  /// It is the last one that ran, as a node outside of it or a member that has left it says.
  void HearOf(Assignment assignment);
  void Begin(Assignment assignment);
  /// It was only heard of, and a member is out of it for certain: who comes and still reports it is too late.
  void RuleOut() { heard_of_ = false; }
  /// None of its members is left; the next one is a first one.
  void Forget();
  void Stop();
  /// Stops because of broken collectives; the failure behind it may be reported yet.
  void Break();
  /// This generation broke, and the failure behind it is still expected.
  bool Broke(const Generation& generation) const { return broken_ == generation; }
  void ExplainBreak() { broken_.reset(); }

  /// False when it had finished before. `final`: the job's result is safe, deaths after this do not matter.
  bool Finish(const std::string& node_id, bool final = false);
  bool HasFinished(const std::string& node_id) const { return finished_.contains(node_id); }
  bool AllFinished() const { return running_ && finished_.size() == last_->members.size(); }
  const std::set<std::string>& finished() const { return finished_; }  // also nodes that are gone since
  bool result_safe() const { return result_safe_; }

  std::string Describe() const;
  bool operator==(const GenerationRecord&) const = default;

 private:
  bool Fits(const Assignment& last, const JobSettings& settings) const;
  void Take(Assignment assignment);

  uint64_t number_ = 0;
  std::optional<Assignment> last_;
  MemberIndex index_;          // of last_
  bool has_services_ = false;  // of last_
  bool running_ = false;
  bool heard_of_ = false;  // the last one is known from others and may run yet
  std::set<std::string> finished_;
  bool result_safe_ = false;
  std::optional<Generation> broken_;
};

}  // namespace mtrun::rendezvous
