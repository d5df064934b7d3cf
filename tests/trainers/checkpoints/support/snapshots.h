// Small snapshots whose bytes encode the step or the generation, and states of runs.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "trainers/checkpoints/checkpoint.h"
#include "trainers/checkpoints/run_state.h"

namespace mtrun::checkpoints {

/// Returns two tensors whose bytes encode the step.
inline Snapshot SnapshotOf(int64_t step) {
  auto bytes = std::make_shared<std::vector<uint8_t>>(48, static_cast<uint8_t>(step));
  const absl::Span<const uint8_t> all(*bytes);
  using datasets::DType;
  Snapshot snapshot;
  snapshot.step = step;
  snapshot.model = {.infos = {{.name = "weight", .dtype = DType::kF32, .shape = {4}},
                              {.name = "bias", .dtype = DType::kF32, .shape = {4}}},
                    .bytes = {all.subspan(0, 16), all.subspan(16, 16)}};
  snapshot.optimizer = {.infos = {{.name = "momentum/0", .dtype = DType::kF32, .shape = {4}}},
                        .bytes = {all.subspan(32, 16)}};
  snapshot.state = absl::StrCat("{\"step\": ", step, "}");
  snapshot.owner = bytes;
  return snapshot;
}

/// Returns a snapshot whose bytes encode the generation.
inline Snapshot SnapshotOfGeneration(uint64_t generation, int64_t step) {
  Snapshot snapshot = SnapshotOf(static_cast<int64_t>(generation));
  snapshot.step = step;
  snapshot.state = EncodeRunState({.run = 7, .position = {generation, step, false}, .identity = {}});
  return snapshot;
}

inline RunState StateAt(uint64_t generation, int64_t step, Lineage lineage) {
  RunState state;
  state.run = 7;
  state.position = {generation, step, false};
  state.lineage = std::move(lineage);
  return state;
}

}  // namespace mtrun::checkpoints
