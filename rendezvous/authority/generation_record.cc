#include "rendezvous/authority/generation_record.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/splitmix.h"
#include "rendezvous/wire/validate_assignment.h"

namespace mtrun::rendezvous {

uint64_t NewIncarnation(uint64_t seed, const std::string& job_id) {
  return std::max<uint64_t>(1, NamedStream(seed, job_id).At(0));
}

const Member* GenerationRecord::FindLast(const std::string& node_id) const {
  return last_ ? index_.Find(last_->members, node_id) : nullptr;
}

const Member* GenerationRecord::FindRunning(const std::string& node_id) const {
  return running_ ? FindLast(node_id) : nullptr;
}

void GenerationRecord::Saw(uint64_t number) {
  if (number <= kMaxGenerationNumber) number_ = std::max(number_, number);
}

Generation GenerationRecord::Next(uint64_t seed, const std::string& job_id) {
  ++number_;
  return Generation{number_, NamedStream(seed, job_id).At(number_)};
}

bool GenerationRecord::IsNews(const Generation& generation) const {
  return generation > id() || (heard_of_ && generation == id());
}

bool GenerationRecord::MayRunInstead(const Generation& generation) const {
  return IsNews(generation) || (heard_of_ && generation.number == id().number);
}

bool GenerationRecord::Fits(const Assignment& last, const JobSettings& settings) {
  const size_t nodes = last.members.size();
  return ValidateAssignment(last).ok() && nodes >= static_cast<size_t>(settings.min_nodes) &&
         nodes <= static_cast<size_t>(settings.max_nodes);
}

bool GenerationRecord::MayBeLast(const Assignment& last, const JobSettings& settings) const {
  return IsNews(last.generation) && Fits(last, settings);
}

bool GenerationRecord::CanAdopt(const Assignment& held, const std::string& reporter,
                                const JobSettings& settings) const {
  // Two services gave out one number. The generation known only from others never ran: a member of it runs
  // the other one, and would have reported it before that one formed.
  const bool runs = IsNews(held.generation) || FindLast(reporter) != nullptr;
  return runs && MayRunInstead(held.generation) && held.generation.number >= number_ &&
         Fits(held, settings) && std::any_of(held.members.begin(), held.members.end(), [&](const Member& m) {
           return m.node_id == reporter;
         });
}

void GenerationRecord::Take(Assignment assignment) {
  last_ = std::move(assignment);
  index_ = MemberIndex(last_->members);
  has_services_ = std::any_of(last_->members.begin(), last_->members.end(),
                              [](const Member& member) { return member.service_port > 0; });
}

void GenerationRecord::Forget() {
  last_.reset();
  index_ = MemberIndex();
  has_services_ = false;
}

void GenerationRecord::HearOf(Assignment assignment) {
  Saw(assignment.generation.number);
  Take(std::move(assignment));
  heard_of_ = true;
}

void GenerationRecord::Begin(Assignment assignment) {
  Take(std::move(assignment));
  running_ = true;
  heard_of_ = false;
}

void GenerationRecord::Stop() {
  running_ = heard_of_ = false;
  finished_.clear();
  result_safe_ = false;
  broken_.reset();
}

void GenerationRecord::Break() {
  Stop();
  broken_ = id();
}

bool GenerationRecord::Finish(const std::string& node_id, bool final) {
  result_safe_ = result_safe_ || final;
  return finished_.insert(node_id).second;
}

std::string GenerationRecord::Describe() const {
  return absl::StrCat(rendezvous::Describe(id()), " of ", number_, known() ? "" : ", first",
                      running_    ? " runs"
                      : heard_of_ ? " heard of"
                                  : "",
                      ", finished {", absl::StrJoin(finished_, " "), "}", result_safe_ ? " safe" : "",
                      broken_ ? ", broken" : "");
}

}  // namespace mtrun::rendezvous
