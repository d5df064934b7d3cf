// The view of a job for people (Status). Values.
#pragma once

#include <string>
#include <vector>

#include "base/clock.h"
#include "rendezvous/wire/fields.h"
#include "rendezvous/wire/job_run.h"
#include "rendezvous/wire/job_settings.h"
#include "rendezvous/wire/types.h"

namespace mtrun::rendezvous {

struct NodeView {
  std::string node_id, host, address, state;
  int node_rank = -1, first_rank = -1, workers = 0;  // ranks are -1 if the node is not a member
  Duration silent_for = Duration::zero(), main_loop_age = Duration::zero();
  std::string note = {};                 // from its agent, "" for none
  Duration note_age = Duration::zero();  // since the note came
  bool operator==(const NodeView&) const = default;
  static void Fields(auto& self, auto&& field) {
    field("node_id", self.node_id, Size{0, kMaxName});
    field("host", self.host, Size{0, kMaxName});
    field("address", self.address, Size{0, kMaxName});
    field("state", self.state, Size{0, kMaxName});
    field("node_rank", self.node_rank);
    field("first_rank", self.first_rank);
    field("workers", self.workers);
    field("silent", self.silent_for);
    field("main_loop_age", self.main_loop_age);
    field("note", self.note, Size{0, kMaxText});
    field("note_age", self.note_age);
  }
};
struct JobView {
  JobSettings settings;
  std::string phase, reason;
  Generation generation;
  int restart_count = 0;
  bool authority = true;                  // this service may change the membership
  uint64_t incarnation = 0;               // identifies its run
  RunProof proof = RunProof::kNone;       // why it is certain of that run, so that other runs are turned away
  Duration phase_age = Duration::zero();  // since the phase or the generation changed
  std::vector<NodeView> nodes;            // members by rank, then the others
  bool operator==(const JobView&) const = default;
  static void Fields(auto& self, auto&& field) {
    field("settings", self.settings);
    field("phase", self.phase, Size{0, kMaxName});
    field("reason", self.reason, Size{0, kMaxText});
    field("generation", self.generation);
    field("restart_count", self.restart_count);
    field("authority", self.authority);
    field("incarnation", self.incarnation);
    field("proof", self.proof);
    field("phase_age", self.phase_age);
    field("nodes", self.nodes);
  }
};

}  // namespace mtrun::rendezvous
