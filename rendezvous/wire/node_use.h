// Resource use and progress of a node's workers, for people who watch (mtrun --http). Values.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "rendezvous/wire/cause.h"
#include "rendezvous/wire/fields.h"

namespace mtrun::rendezvous {

struct WorkerUse {
  int rank = -1;  // in the running generation, -1: none
  int local_rank = 0;
  int64_t pid = 0;
  int64_t step = -1;                          // finished steps, -1: not reported
  int64_t samples = -1;                       // consumed by the job, as far as this worker has seen
  Duration step_time = Duration::zero();      // recent time of a step; zero: two steps are not reported yet
  Duration data_wait = Duration::zero();      // part of step_time spent waiting for input
  Duration exchange_wait = Duration::zero();  // part of step_time spent waiting for other workers
  Duration quiet = Duration::zero();          // since its last finished step
  Duration cpu = Duration::zero();            // processor time of it and its children since it started
  int64_t memory = 0;                         // resident bytes, of all of them
  std::optional<double> loss = {};            // recent training loss, if reported
  std::optional<double> learning_rate = {};
  std::optional<double> accuracy = {};  // recent part of right predictions
  int64_t epoch = 0;                    // of the next step, counted from 1; 0: unknown
  int64_t epochs = 0, total_steps = 0;  // of the run; 0: unknown
  std::string run = {};                 // name of the run's folder; "": unknown
  bool operator==(const WorkerUse&) const = default;
  static void Fields(auto& self, auto&& field) {
    field("rank", self.rank, Range{-1, int64_t{kMaxNodes} * kMaxWorkersPerNode});
    field("local_rank", self.local_rank, Range{0, kMaxWorkersPerNode});
    field("pid", self.pid);
    field("step", self.step, Range{-1, int64_t{1} << 53});
    field("samples", self.samples, Range{-1, int64_t{1} << 53});
    field("step_time", self.step_time, Range{0, kMaxNanoseconds});
    field("data_wait", self.data_wait, Range{0, kMaxNanoseconds});
    field("exchange_wait", self.exchange_wait, Range{0, kMaxNanoseconds});
    field("quiet", self.quiet, Range{0, kMaxNanoseconds});
    field("cpu", self.cpu, Range{0, INT64_MAX});
    field("memory", self.memory, Range{0, INT64_MAX});
    field("loss", self.loss);
    field("learning_rate", self.learning_rate);
    field("accuracy", self.accuracy);
    field("epoch", self.epoch, Range{0, int64_t{1} << 53});
    field("epochs", self.epochs, Range{0, int64_t{1} << 53});
    field("total_steps", self.total_steps, Range{0, int64_t{1} << 53});
    field("run", self.run, Size{0, kMaxName});
  }
};

struct GpuUse {
  std::string name;
  int busy_percent = -1;                 // -1: unknown
  int64_t memory = 0, memory_total = 0;  // bytes
  int temperature = -1;                  // degrees Celsius, -1: unknown
  bool operator==(const GpuUse&) const = default;
  static void Fields(auto& self, auto&& field) {
    field("name", self.name, Size{0, kMaxName});
    field("busy_percent", self.busy_percent, Range{-1, 100});
    field("memory", self.memory, Range{0, INT64_MAX});
    field("memory_total", self.memory_total, Range{0, INT64_MAX});
    field("temperature", self.temperature, Range{-1, 1000});
  }
};

struct NodeUse {
  int64_t asked = 0;                // the request that this answers
  int cpus = 0;                     // processors that its processes may use
  Duration cpu = Duration::zero();  // busy time of all processors of the machine since it started
  int machine_cpus = 0;
  Duration measured = Duration::zero();  // time of the measurement, since the machine started
  int64_t memory = 0, memory_total = 0;  // bytes of the machine: in use, and total
  std::vector<WorkerUse> workers = {};   // by local rank
  std::vector<GpuUse> gpus = {};         // GPUs of the machine; empty: none, or no NVML
  bool operator==(const NodeUse&) const = default;
  static void Fields(auto& self, auto&& field) {
    field("asked", self.asked);
    field("cpus", self.cpus, Range{0, 1 << 20});
    field("cpu", self.cpu, Range{0, INT64_MAX});
    field("machine_cpus", self.machine_cpus, Range{0, 1 << 20});
    field("measured", self.measured, Range{0, INT64_MAX});
    field("memory", self.memory, Range{0, INT64_MAX});
    field("memory_total", self.memory_total, Range{0, INT64_MAX});
    field("workers", self.workers, List{{0, kMaxWorkersPerNode}, {}});
    field("gpus", self.gpus, List{{0, 256}, {}});
  }
};

/// Sent to an agent while a client watches: report once what your workers use.
struct UseAsked {
  int64_t id = 0;
  bool operator==(const UseAsked&) const = default;
  static void Fields(auto& self, auto&& field) { field("id", self.id); }
};

/// An event of a job, for people.
struct Happening {
  std::string job_id;
  int64_t number = 0;  // increasing
  int64_t at_ns = 0;   // wall clock of the service
  std::string text = {};
  std::optional<Cause> cause = {};  // why a node is not in the job any more
  bool operator==(const Happening&) const = default;
  static void Fields(auto& self, auto&& field) {
    field("job_id", self.job_id, Size{0, kMaxName});
    field("number", self.number);
    field("at_ns", self.at_ns);
    field("text", self.text, Size{0, kMaxText});
    field("cause", self.cause);
  }
};

struct WatchedNode {
  std::string job_id, node_id;
  Duration age = Duration::zero();  // since it arrived
  NodeUse use = {};
  bool operator==(const WatchedNode&) const = default;
  static void Fields(auto& self, auto&& field) {
    field("job_id", self.job_id, Size{0, kMaxName});
    field("node_id", self.node_id, Size{0, kMaxName});
    field("age", self.age);
    field("use", self.use);
  }
};

}  // namespace mtrun::rendezvous
