#include "trainers/collectives/group.h"

#include <bit>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "base/string_view.h"
#include "trainers/collectives/operations.h"

namespace mtrun::collectives {
namespace {

TreePlan OrderOfRanks(int world) {
  std::vector<LeafRange> ranges;
  for (int rank = 0; rank < world; ++rank) ranges.push_back({rank, rank + 1});
  return PlanTree(ranges, world, world);
}

}  // namespace

Group::Group(int rank, int world)
    : rank_(rank), world_(world), order_of_ranks_(std::make_shared<TreePlan>(OrderOfRanks(world))) {}

absl::StatusOr<std::unique_ptr<Group>> Group::Connect(const GroupMember& membership, Bootstrap* bootstrap,
                                                      const GroupOptions& options) {
  const int rank = membership.rank, world = membership.world_size;
  if (world < 1 || rank < 0 || rank >= world) {
    return absl::InvalidArgumentError(
        absl::StrCat("rank ", rank, " of ", world, ": a rank must be from 0 to world size - 1"));
  }
  std::unique_ptr<Group> group(new Group(rank, world));
  if (world == 1) return group;
  MT_CHECK(bootstrap != nullptr && options.slot_bytes % kPage == 0);
  const uint64_t generation = GenerationHash(membership.generation);
  MT_ASSIGN_OR_RETURN(auto segment, OwnSegment::Create(generation, rank, world, options.slot_bytes));
  {
    MT_ASSIGN_OR_RETURN(const UniqueFd read_only, segment->ReadOnly());
    MT_ASSIGN_OR_RETURN(group->peers_, ConnectMesh(membership, *bootstrap, read_only.get(), options.mesh));
  }
  group->transport_ =
      std::make_unique<Transport>(rank, generation, std::move(segment), group->peers_, group->failure_);
  MT_RETURN_IF_ERROR(group->transport_->Open());
  group->monitor_ = std::make_unique<Monitor>(group->peers_, *group->transport_, group->failure_);
  group->queue_ = std::make_unique<WorkQueue>();
  return group;
}

Group::~Group() {
  if (queue_ != nullptr && queue_->pending() > 0)
    Abort("the process group was closed with operations in progress");
}

std::shared_ptr<Work> Group::Submit(WorkQueue::Operation operation, OnDone on_done, Start start) {
  return queue_->Submit(
      [this, operation = std::move(operation)] {
        // After a failure, a stopped peer may still read the slot that this would write (transport.h).
        if (failure_.failed()) return failure_.status();
        absl::Status status = operation();
        if (status.ok()) return status;
        // If one rank stops participating, the group ends for all. Another failure may have been the first.
        failure_.Set(std::move(status));
        return failure_.status();
      },
      std::move(on_done), start);
}

std::shared_ptr<Work> Group::Refuse(absl::Status status, const OnDone& on_done) const {
  if (on_done) on_done(status);
  return CompletedWork(std::move(status));
}

std::shared_ptr<Work> Group::AllReduce(void* data, size_t count, DataType dtype, ReduceOp op, OnDone on_done,
                                       Start start, std::shared_ptr<Notes> notes) {
  if (op == ReduceOp::kAverage && (dtype == DataType::kInt64 || dtype == DataType::kUint8)) {
    return Refuse(absl::InvalidArgumentError("an average needs floating-point numbers; use a sum"), on_done);
  }
  const Call call = {.operation = Operation::kAllReduce, .dtype = dtype, .reduce = op, .count = count};
  return SubmitAllReduce(data, call, std::move(on_done), start, std::move(notes), order_of_ranks_);
}

std::shared_ptr<Work> Group::SumPartials(void* data, size_t count, DataType dtype,
                                         std::shared_ptr<const TreePlan> plan, OnDone on_done,
                                         std::shared_ptr<Notes> notes) {
  const bool floats = dtype == DataType::kFloat32 || dtype == DataType::kFloat64;
  if (!floats || plan->partials.size() != static_cast<size_t>(world_)) {
    return Refuse(absl::InvalidArgumentError(absl::StrCat("a sum of float32 or float64 over ",
                                                          plan->Describe(), ", in a group of ", world_)),
                  on_done);
  }
  const Call call = {.operation = Operation::kAllReduce,
                     .dtype = dtype,
                     .reduce = ReduceOp::kSum,
                     .root = std::bit_cast<int32_t>(plan->Digest()),
                     .count = count};
  return SubmitAllReduce(data, call, std::move(on_done), Start::kNow, std::move(notes), std::move(plan));
}

std::shared_ptr<Work> Group::SubmitAllReduce(void* data, Call call, OnDone on_done, Start start,
                                             std::shared_ptr<Notes> notes,
                                             std::shared_ptr<const TreePlan> plan) {
  const size_t note = notes ? notes->own.size() : 0;
  if (note > kMaxNoteBytes) {
    return Refuse(absl::InvalidArgumentError(absl::StrCat(
                      "a note of ", note, " bytes beside an all-reduce: at most ", kMaxNoteBytes)),
                  on_done);
  }
  if (world_ == 1) {
    if (notes) notes->all = {notes->own};
    return Refuse(failure_.status(), on_done);
  }
  call.note = static_cast<uint8_t>(note);
  return Submit(
      [this, call, data, notes = std::move(notes), plan = std::move(plan)] {
        return collectives::AllReduce(*transport_, call, data, *plan, notes.get());
      },
      std::move(on_done), start);
}

std::shared_ptr<Work> Group::Broadcast(void* data, size_t count, DataType dtype, int root, OnDone on_done,
                                       Start start) {
  if (root < 0 || root >= world_) {
    return Refuse(absl::InvalidArgumentError(absl::StrCat("broadcast from rank ", root, " of ", world_)),
                  on_done);
  }
  if (world_ == 1) return Refuse(failure_.status(), on_done);
  const Call call = {.operation = Operation::kBroadcast, .dtype = dtype, .root = root, .count = count};
  return Submit([this, call, data] { return collectives::Broadcast(*transport_, call, data); },
                std::move(on_done), start);
}

std::shared_ptr<Work> Group::AllGather(const void* input, std::vector<void*> outputs, size_t count,
                                       DataType dtype, OnDone on_done, Start start) {
  if (outputs.size() != static_cast<size_t>(world_)) {
    return Refuse(
        absl::InvalidArgumentError(absl::StrCat("all-gather into ", outputs.size(), " buffers, expected ",
                                                world_, ", one for each rank")),
        on_done);
  }
  if (world_ == 1) {
    if (count > 0 && outputs[0] != input) std::memcpy(outputs[0], input, count * SizeOf(dtype));
    return Refuse(failure_.status(), on_done);
  }
  const Call call = {.operation = Operation::kAllGather, .dtype = dtype, .count = count};
  return Submit(
      [this, call, input, outputs = std::move(outputs)] {
        return collectives::AllGather(*transport_, call, input, outputs);
      },
      std::move(on_done), start);
}

std::shared_ptr<Work> Group::Barrier(OnDone on_done, Start start) {
  if (world_ == 1) return Refuse(failure_.status(), on_done);
  return Submit([this] { return collectives::Barrier(*transport_, {.operation = Operation::kBarrier}); },
                std::move(on_done), start);
}

absl::StatusOr<std::shared_ptr<char>> Group::Allocate(size_t bytes) {
  if (!has_local_peers()) return absl::FailedPreconditionError("no peer on this host to share memory with");
  MT_ASSIGN_OR_RETURN(std::shared_ptr<Area> area, transport_->segment().Allocate(bytes));
  char* data = area->memory->data();
  return std::shared_ptr<char>(std::move(area), data);
}

void Group::Abort(std::string_view why) { failure_.Set(absl::AbortedError(View(why))); }

}  // namespace mtrun::collectives
