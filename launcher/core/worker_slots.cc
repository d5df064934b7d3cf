#include "launcher/core/worker_slots.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace mtrun::launcher {

using Life = WorkerSlot::Life;

template <typename Predicate>
std::vector<int> WorkerSlots::Where(Predicate predicate) const {
  std::vector<int> found;
  for (int i = 0; i < size(); ++i) {
    if (predicate((*this)[i])) found.push_back(i);
  }
  return found;
}

WorkerSlot* WorkerSlots::Find(int local_rank) {
  return local_rank >= 0 && local_rank < size() ? &(*this)[local_rank] : nullptr;
}

void WorkerSlots::Reset(int count) {
  slots_.assign(static_cast<size_t>(count), WorkerSlot{.life = Life::kGone});
}

void WorkerSlots::Clear() { slots_.clear(); }

void WorkerSlots::AssignRanks(int count, int first_rank) {
  const auto worth = [this](int local_rank) {
    const WorkerSlot& slot = (*this)[local_rank];
    if (slot.running() && slot.member()) return 3;
    if (slot.running() && slot.warm) return 2;
    return slot.given_up ? 0 : 1;
  };
  std::vector<int> chosen = Where([](const WorkerSlot&) { return true; });
  std::ranges::stable_sort(chosen, [&](int a, int b) { return worth(a) > worth(b); });
  chosen.resize(static_cast<size_t>(count));
  std::ranges::sort(chosen);
  for (WorkerSlot& slot : slots_) slot.rank = -1;
  for (const int local_rank : chosen) (*this)[local_rank].rank = first_rank++;
}

void WorkerSlots::EndGeneration() {
  ForgetLeftovers();
  for (WorkerSlot& slot : slots_) {
    slot.said_done = slot.exited_well = slot.due = slot.connected = false;
    if (!slot.running()) slot.rank = -1;
  }
}

void WorkerSlots::Start(int local_rank, bool presumed) {
  WorkerSlot& slot = (*this)[local_rank];
  slot = WorkerSlot{.presumed = presumed, .rank = slot.rank};
  if (Where([](const WorkerSlot& other) { return other.due; }).empty()) ForgetLeftovers();
}

std::vector<int> WorkerSlots::Due() const {
  return Where([](const WorkerSlot& slot) { return slot.due && slot.life == Life::kGone; });
}

std::vector<int> WorkerSlots::Vacant() const {
  return Where([](const WorkerSlot& slot) {
    return slot.life == Life::kGone && !slot.given_up && (slot.due || !slot.member());
  });
}

std::vector<int> WorkerSlots::Listening() const {
  return Where([](const WorkerSlot& slot) { return slot.said_hello && slot.running(); });
}

int WorkerSlots::LocalRankOf(int rank) const {
  for (const int local_rank : Members())
    if ((*this)[local_rank].rank == rank) return local_rank;
  return -1;
}

std::vector<int> WorkerSlots::Members() const {
  return Where([](const WorkerSlot& slot) { return slot.member(); });
}

std::vector<int> WorkerSlots::Idle() const {
  return Where([](const WorkerSlot& slot) { return slot.running() && !slot.member(); });
}

bool WorkerSlots::AllAtLeast(Life life) const {
  return std::ranges::all_of(slots_, [&](const WorkerSlot& slot) { return slot.life >= life; });
}

bool WorkerSlots::AllMembersDone() const {
  return std::ranges::all_of(slots_, [](const WorkerSlot& slot) { return slot.done() || !slot.member(); });
}

bool WorkerSlots::AllMembersSafe() const {
  return std::ranges::all_of(slots_, [](const WorkerSlot& slot) { return slot.said_done || !slot.member(); });
}

bool WorkerSlots::AllOut() const {
  return std::ranges::all_of(slots_, [](const WorkerSlot& slot) { return slot.out(); });
}

bool WorkerSlots::AnyMemberOut() const {
  return std::ranges::any_of(slots_, [](const WorkerSlot& slot) { return slot.member() && slot.out(); });
}

bool WorkerSlots::AnyMemberRunning() const {
  return std::ranges::any_of(slots_, [](const WorkerSlot& slot) { return slot.member() && slot.running(); });
}

bool WorkerSlots::AllRegroup() const {
  return std::ranges::all_of(slots_,
                             [](const WorkerSlot& slot) { return !slot.running() || slot.regroups(); });
}

bool WorkerSlots::Cooperative() const {
  const auto known = [this](const WorkerSlot& slot) {
    return slot.running() && (slot.said_hello || warm_up_);
  };
  return AllRegroup() && std::ranges::any_of(slots_, known);
}

bool WorkerSlots::AllMembersLeftWell() const {
  const auto left_well = [](const WorkerSlot& slot) {
    return !slot.member() || (slot.exit_code == 0 && (slot.said_leaving || slot.said_done));
  };
  return !Members().empty() && std::ranges::all_of(slots_, left_well);
}

int WorkerSlots::StatusOfLeavers() const {
  int status = 0;
  for (const WorkerSlot& slot : slots_) {
    if ((!slot.said_leaving && !slot.said_done) || slot.exit_code == 0) continue;
    if (slot.exit_code < 0 || (status != 0 && status != slot.exit_code)) return 0;
    status = slot.exit_code;
  }
  return status;
}

void WorkerSlots::GiveUpOnLeftovers() {
  ForgetLeftovers();
  for (WorkerSlot& slot : slots_) {
    if (slot.due) slot.life = Life::kGone;
  }
}

void WorkerSlots::GiveUpOnAll() {
  for (WorkerSlot& slot : slots_) slot.life = Life::kGone;
}

std::string WorkerSlots::NameOf(int local_rank) const {
  const int rank = (*this)[local_rank].rank;
  return rank >= 0 ? absl::StrCat("rank ", rank, " (local ", local_rank, ") on ", host_)
                   : absl::StrCat("local rank ", local_rank, " (no rank yet) on ", host_);
}

std::string WorkerSlots::Describe() const {
  static constexpr const char* kLives[] = {"running", "exited", "gone"};
  std::string text;
  for (int i = 0; i < size(); ++i) {
    const WorkerSlot& slot = (*this)[i];
    absl::StrAppend(&text, i == 0 ? "workers " : ", ", i, " ", kLives[static_cast<int>(slot.life)],
                    slot.done() ? " done" : "");
    if (slot.said_leaving) absl::StrAppend(&text, " leaving");
    if (slot.due) absl::StrAppend(&text, " due");
    if (slot.given_up) absl::StrAppend(&text, " given up");
    if (warm_up_ && !slot.member()) absl::StrAppend(&text, slot.warm ? " warm" : " fresh");
  }
  return text;
}

}  // namespace mtrun::launcher
