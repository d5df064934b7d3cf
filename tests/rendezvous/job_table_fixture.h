// A table of jobs and nodes that come to it.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "rendezvous/authority/formation.h"
#include "rendezvous/job/job_table.h"
#include "rendezvous/wire/job_settings.h"

namespace mtrun::rendezvous {

inline JobSettings TableSettings(const std::string& job_id) {
  JobSettings settings;
  settings.job_id = job_id;
  return settings;
}

template <typename T>
const T* Find(const std::vector<JobTable::JobEffect>& effects) {
  for (const auto& [job_id, effect] : effects) {
    const auto* send = std::get_if<Send>(&effect);
    if (send == nullptr) continue;
    if (const T* event = std::get_if<T>(&send->event)) return event;
  }
  return nullptr;
}

class JobTableTest : public ::testing::Test {
 protected:
  explicit JobTableTest(const TakeoverQuorum::Role& role = {}, JobTable::Remembered remembered = {},
                        Duration recovery_window = Duration::zero())
      : table_({3, TimePoint(), recovery_window, /*host_begins=*/false, 0, role}) {
    table_.Remember(std::move(remembered));
  }
  std::vector<JobTable::JobEffect> Open(const std::string& job, const std::string& node,
                                        uint64_t incarnation = 0) {
    StreamOpened opened{TableSettings(job), {}, 0};
    opened.incarnation = incarnation;
    return table_.Step(job, Event{node, opened}, now_);
  }
  std::vector<JobTable::JobEffect> Say(const std::string& job, const std::string& node, AgentEvent event) {
    return table_.Step(job, Event{node, AgentSaid{std::move(event), {}}}, now_);
  }
  Assignment RunAll(const std::string& job, const std::string& node) {
    Open(job, node);
    Offer offer;
    offer.node_id = offer.host = node;
    const auto effects = Say(job, node, OfferSent{offer});
    const Assigned* assigned = Find<Assigned>(effects);
    EXPECT_NE(assigned, nullptr);
    return assigned != nullptr ? assigned->assignment() : Assignment{};
  }
  /// Advances until no node is left.
  void AwaitNobody() {
    for (int second = 0; second < 60; ++second) {
      now_ += std::chrono::seconds(1);
      table_.Tick(now_);
    }
    EXPECT_TRUE(table_.jobs().empty());
  }
  Generation Run(const std::string& job, const std::string& node) { return RunAll(job, node).generation; }

  TimePoint now_;
  JobTable table_;
};

}  // namespace mtrun::rendezvous
