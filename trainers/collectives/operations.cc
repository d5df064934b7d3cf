#include "trainers/collectives/operations.h"

#include <algorithm>
#include <cstring>

#include "base/status_macros.h"
#include "trainers/collectives/host_reduce.h"
#include "trainers/collectives/reduce.h"

namespace mtrun::collectives {
namespace {

// Limit of inputs * bytes for one phase: reading everything from all ranks costs that much, while the second
// phase of the other scheme costs some microseconds. Between hosts those bytes cross the network.
constexpr size_t kMaxOneShotBytes = 256 * 1024;
constexpr size_t kMaxOneShotBytesBetweenHosts = 32 * 1024;
constexpr size_t kMaxBlockBytes = 1 << 20;  // within a host: passes through the cache

size_t Index(int rank) { return static_cast<size_t>(rank); }

// Skips empty copies: memcpy must not get null pointers, which empty tensors have.
void Copy(void* to, const void* from, size_t bytes) {
  if (bytes > 0 && to != from) std::memcpy(to, from, bytes);
}

Phase EmptyPhase(const Transport& transport, const Call& call) {
  Phase phase;
  phase.call = call;
  if (transport.has_remote()) {
    phase.send.resize(Index(transport.world()));
    phase.receive.resize(Index(transport.world()));
  }
  return phase;
}

/// Runs `phase`, in which the ranks tell each other their bytes: those of rank r go to `to(r)`. `own`: those of
/// this rank, which local peers read where `phase` exposes them.
template <typename To>
absl::Status Gather(Transport& transport, Phase& phase, const void* own, const To& to) {
  for (size_t rank = 0; rank < phase.send.size(); ++rank) {
    phase.send[rank] = {ConstBytes{own, to(transport.rank()).size}};
    phase.receive[rank] = {to(static_cast<int>(rank))};
  }
  MT_RETURN_IF_ERROR(transport.Exchange(phase));
  for (int rank = 0; rank < transport.world(); ++rank) {
    const MutableBytes room = to(rank);
    if (rank == transport.rank()) {
      Copy(room.data, own, room.size);
    } else if (transport.is_local(rank)) {
      MT_ASSIGN_OR_RETURN(const char* theirs, transport.View(rank, room.size));
      Copy(room.data, theirs, room.size);
    }
  }
  return absl::OkStatus();
}

/// One running all-reduce: in one phase over all hosts, or in blocks within one.
class AllReducer {
 public:
  AllReducer(Transport& transport, const Call& call, void* data, Notes* notes, const TreePlan& plan)
      : transport_(transport),
        world_(transport.world()),
        element_(SizeOf(call.dtype)),
        data_(static_cast<char*>(data)),
        notes_(notes),
        plan_(plan),
        phase_(EmptyPhase(transport, call)),
        inputs_(Index(plan.inputs())) {}

  absl::Status Run() {
    const size_t bytes = phase_.call.count * element_;
    const size_t slot = transport_.segment().slot_bytes();
    const size_t most = Index(std::max(1, plan_.most_partials()));
    if (bytes * inputs_.size() <= MostOneShotBytes() && most * bytes + phase_.call.note <= slot)
      return OneShot(bytes);
    if (transport_.has_remote()) return ReduceOverHosts(transport_, phase_.call, data_, notes_, plan_);
    area_ = transport_.segment().Find(data_, std::max<size_t>(1, PartsOf(transport_.rank())) * bytes);
    phase_.area = area_;
    // The same on all ranks, whatever memory they use.
    const size_t block = std::min(slot, kMaxBlockBytes) / element_ / most;
    MT_CHECK(block > 0) << most << " partial sums in a slot of " << slot << " bytes";
    for (size_t done = 0; done < phase_.call.count; done += block) {
      const size_t count = std::min(block, phase_.call.count - done);
      MT_RETURN_IF_ERROR(ReduceScatter(data_ + done * element_, count));
      MT_RETURN_IF_ERROR(GatherResults(data_ + done * element_, count));
    }
    // Peers may still be reading the last results in place.
    return notes_ != nullptr ? TellNotes() : Barrier(transport_, phase_.call);
  }

 private:
  /// The parts that a rank contributes, each a partial sum of `count` elements.
  size_t PartsOf(int rank) const { return Index(plan_.partials[Index(rank)]); }

  bool IsRemote(int rank) const { return rank != transport_.rank() && !transport_.is_local(rank); }

  size_t MostOneShotBytes() const {
    // Two hosts with one rank each send as much in one phase as in two.
    return transport_.has_remote() && world_ > 2 ? kMaxOneShotBytesBetweenHosts : kMaxOneShotBytes;
  }

  absl::Status OneShot(size_t bytes) {
    char* slot = transport_.NextSlot();
    const size_t own = PartsOf(transport_.rank()) * bytes, note = phase_.call.note;
    Copy(slot, data_, own);
    if (notes_ != nullptr) Copy(slot + own, notes_->own.data(), note);
    std::vector<std::vector<char>> received(phase_.receive.size());
    for (size_t rank = 0; rank < received.size(); ++rank) {
      if (!IsRemote(static_cast<int>(rank))) continue;
      received[rank].resize(PartsOf(static_cast<int>(rank)) * bytes + note);
      phase_.send[rank] = {ConstBytes{slot, own + note}};
      phase_.receive[rank] = {MutableBytes{received[rank].data(), received[rank].size()}};
    }
    MT_RETURN_IF_ERROR(transport_.Exchange(phase_));
    size_t input = 0;
    for (int rank = 0; rank < world_; ++rank) {
      const size_t parts = PartsOf(rank);
      const char* from = slot;
      if (IsRemote(rank)) {
        from = received[Index(rank)].data();
      } else if (rank != transport_.rank()) {
        MT_ASSIGN_OR_RETURN(from, transport_.View(rank, parts * bytes + note));
      }
      for (size_t part = 0; part < parts; ++part) inputs_[input++] = from + part * bytes;
      if (notes_ != nullptr) notes_->all[Index(rank)].assign(from + parts * bytes, note);
    }
    SumInto(data_, phase_.call.count);
    return absl::OkStatus();
  }

  void SumInto(void* output, size_t count) {
    const Call& call = phase_.call;
    if (RoundsOnce(call.dtype, call.reduce)) return Reduce(call.dtype, call.reduce, inputs_, output, count);
    ReduceTree(call.dtype, call.reduce, plan_, inputs_, output, count);
    if (call.reduce == ReduceOp::kAverage) Divide(call.dtype, output, count, world_);
  }

  // Leaves the sum of this rank's chunk in result_.
  absl::Status ReduceScatter(char* block, size_t count) {
    const size_t own = PartsOf(transport_.rank());
    const size_t whole = phase_.call.count * element_;  // from one own part to the next
    phase_.stride = area_ != nullptr ? whole : count * element_;
    if (area_ == nullptr) {
      char* slot = transport_.NextSlot();
      for (size_t part = 0; part < own; ++part)
        Copy(slot + part * phase_.stride, block + part * whole, count * element_);
    }
    phase_.exposed = block;
    const Chunk mine = ChunkOf(count, element_, transport_.rank(), world_);
    MT_RETURN_IF_ERROR(transport_.Exchange(phase_));
    MT_RETURN_IF_ERROR(CollectParts(block, mine));
    const size_t begin = mine.begin * element_;
    result_ = area_ == nullptr ? transport_.NextSlot() : block + begin;
    SumInto(result_, mine.size());
    return absl::OkStatus();
  }

  /// Sets inputs_ to the chunk `mine` of all parts of all ranks.
  absl::Status CollectParts(const char* block, const Chunk& mine) {
    const size_t begin = mine.begin * element_, bytes = mine.size() * element_;
    size_t input = 0;
    for (int rank = 0; rank < world_; ++rank) {
      const size_t parts = PartsOf(rank);
      const char* from = block + begin;
      size_t stride = phase_.call.count * element_;
      if (rank != transport_.rank() && parts > 0) {
        stride = parts > 1 ? transport_.StrideOf(rank) : 0;
        if (stride > phase_.call.count * element_)
          return absl::InternalError("a peer exposes partial sums beyond its own");
        MT_ASSIGN_OR_RETURN(from, transport_.View(rank, begin + (parts - 1) * stride + bytes));
        from += begin;
      }
      for (size_t part = 0; part < parts; ++part) inputs_[input++] = from + part * stride;
    }
    return absl::OkStatus();
  }

  absl::Status GatherResults(char* block, size_t count) {
    phase_.exposed = result_;
    phase_.stride = 0;
    return Gather(transport_, phase_, result_, [&](int rank) {
      const Chunk chunk = ChunkOf(count, element_, rank, world_);
      return MutableBytes{block + chunk.begin * element_, chunk.size() * element_};
    });
  }

  /// Exchanges the notes in a phase of its own, which ends the all-reduce like a barrier.
  absl::Status TellNotes() {
    char* slot = transport_.NextSlot();
    Copy(slot, notes_->own.data(), notes_->own.size());
    for (std::string& note : notes_->all) note.resize(notes_->own.size());
    Phase phase = EmptyPhase(transport_, phase_.call);
    return Gather(transport_, phase, slot, [&](int rank) {
      std::string& note = notes_->all[Index(rank)];
      return MutableBytes{note.data(), note.size()};
    });
  }

  Transport& transport_;
  const int world_;
  const size_t element_;
  char* const data_;
  Notes* const notes_;
  const TreePlan& plan_;
  std::shared_ptr<Area> area_;  // the area of data_; null if it is ordinary memory
  Phase phase_;
  std::vector<const void*> inputs_;  // of all ranks, in the order of the plan
  char* result_ = nullptr;
};

/// One running broadcast. The root sends each remote host every byte once, a slice to each of its ranks, which
/// expose it in the next phase to the others there.
class Broadcaster {
 public:
  Broadcaster(Transport& transport, const Call& call, void* data)
      : transport_(transport),
        map_(transport.hosts()),
        call_(call),
        data_(static_cast<char*>(data)),
        bytes_(call.count * SizeOf(call.dtype)),
        block_(std::min(transport.segment().slot_bytes(), kMaxBlockBytes)) {}

  absl::Status Run() {
    const size_t blocks = std::max<size_t>(1, (bytes_ + block_ - 1) / block_);
    const bool spreads = map_.shares() && map_.hosts() > 1;
    for (size_t step = 0; step < blocks + (spreads ? 1 : 0); ++step) {
      Phase phase = EmptyPhase(transport_, call_);
      phase.empty_frames = step == 0;  // ranks that make other calls find out
      if (step < blocks) Send(step, &phase);
      MT_RETURN_IF_ERROR(transport_.Exchange(phase));
      if (step < blocks) MT_RETURN_IF_ERROR(Take(step));
      if (step > 0 && spreads) MT_RETURN_IF_ERROR(Spread(step - 1));
    }
    return absl::OkStatus();
  }

 private:
  struct Part {
    char* data;
    size_t begin, size;  // within the block
  };

  bool is_sender() const { return transport_.rank() == call_.root; }
  bool with_sender() const { return is_sender() || transport_.is_local(call_.root); }

  /// Returns the slice of a block that the root sends to a rank of another host.
  Part SliceOf(int rank, size_t number) const {
    const size_t done = number * block_, size = std::min(block_, bytes_ - done);
    const Chunk slice =
        ChunkOf(size, 1, map_.index_of[Index(rank)], static_cast<int>(map_.with(rank).size()));
    return {data_ + done + slice.begin, slice.begin, slice.size()};
  }

  void Send(size_t number, Phase* phase) {
    if (is_sender()) {
      Copy(transport_.NextSlot(), data_ + number * block_, std::min(block_, bytes_ - number * block_));
      for (size_t rank = 0; rank < phase->send.size(); ++rank) {
        const Part part = SliceOf(static_cast<int>(rank), number);
        phase->send[rank] = {ConstBytes{part.data, part.size}};
      }
    } else if (!with_sender()) {
      const Part part = SliceOf(transport_.rank(), number);
      phase->receive[Index(call_.root)] = {MutableBytes{part.data, part.size}};
    }
  }

  /// Takes a block from the root of this host, or exposes the slice that came.
  absl::Status Take(size_t number) {
    if (is_sender()) return absl::OkStatus();
    if (!with_sender()) {
      const Part part = SliceOf(transport_.rank(), number);
      Copy(transport_.NextSlot(), part.data, part.size);
      return absl::OkStatus();
    }
    const size_t done = number * block_, size = std::min(block_, bytes_ - done);
    MT_ASSIGN_OR_RETURN(const char* source, transport_.View(call_.root, size));
    Copy(data_ + done, source, size);
    return absl::OkStatus();
  }

  absl::Status Spread(size_t number) {
    if (with_sender()) return absl::OkStatus();
    for (const int rank : map_.with(transport_.rank())) {
      if (rank == transport_.rank()) continue;
      const Part part = SliceOf(rank, number);
      MT_ASSIGN_OR_RETURN(const char* source, transport_.View(rank, part.size));
      Copy(part.data, source, part.size);
    }
    return absl::OkStatus();
  }

  Transport& transport_;
  const HostMap& map_;
  const Call call_;
  char* const data_;
  const size_t bytes_, block_;
};

}  // namespace

absl::Status AllReduce(Transport& transport, const Call& call, void* data, const TreePlan& plan,
                       Notes* notes) {
  MT_CHECK(call.note == (notes != nullptr ? notes->own.size() : 0));
  if (notes != nullptr) notes->all.resize(Index(transport.world()));
  return AllReducer(transport, call, data, notes, plan).Run();
}

absl::Status Broadcast(Transport& transport, const Call& call, void* data) {
  return Broadcaster(transport, call, data).Run();
}

absl::Status AllGather(Transport& transport, const Call& call, const void* input,
                       const std::vector<void*>& outputs) {
  const size_t bytes = call.count * SizeOf(call.dtype);
  const size_t block = std::min(transport.segment().slot_bytes(), kMaxBlockBytes);
  Phase phase = EmptyPhase(transport, call);
  for (size_t done = 0; done == 0 || done < bytes; done += block) {
    const char* part = static_cast<const char*>(input) + done;
    const size_t size = std::min(block, bytes - done);
    Copy(transport.NextSlot(), part, size);
    MT_RETURN_IF_ERROR(Gather(transport, phase, part, [&](int rank) {
      return MutableBytes{static_cast<char*>(outputs[Index(rank)]) + done, size};
    }));
  }
  return absl::OkStatus();
}

absl::Status Barrier(Transport& transport, const Call& call) {
  return transport.Exchange(EmptyPhase(transport, call));
}

}  // namespace mtrun::collectives
