#include "trainers/collectives/operations.h"

#include <algorithm>
#include <cstring>

#include "base/status_macros.h"
#include "trainers/collectives/reduce.h"

namespace mtrun::collectives {
namespace {

// Limit of world * bytes for one phase: reading everything from all ranks costs that much, while the second
// phase of the other scheme costs some microseconds.
constexpr size_t kMaxOneShotBytes = 256 * 1024;

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
    phase.send[rank] = {own, to(transport.rank()).size};
    phase.receive[rank] = to(static_cast<int>(rank));
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

/// One running all-reduce. Its inputs are those of all ranks, one each without a plan.
class AllReducer {
 public:
  AllReducer(Transport& transport, const Call& call, void* data, Notes* notes, const TreePlan* plan)
      : transport_(transport),
        world_(transport.world()),
        element_(SizeOf(call.dtype)),
        data_(static_cast<char*>(data)),
        notes_(notes),
        plan_(plan),
        phase_(EmptyPhase(transport, call)),
        inputs_(Index(plan != nullptr ? plan->inputs() : world_)),
        received_(phase_.receive.size()),
        packed_(phase_.send.size()) {}

  absl::Status Run() {
    const size_t bytes = phase_.call.count * element_;
    const size_t slot = transport_.segment().slot_bytes();
    const size_t most = plan_ != nullptr ? Index(plan_->most_partials()) : 1;
    if (bytes * inputs_.size() <= kMaxOneShotBytes && most * bytes + phase_.call.note <= slot)
      return OneShot(bytes);
    area_ = transport_.segment().Find(data_, std::max<size_t>(1, PartsOf(transport_.rank())) * bytes);
    phase_.area = area_;
    const size_t block = slot / element_ / most;  // the same on all ranks, whatever memory they use
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
  size_t PartsOf(int rank) const { return plan_ != nullptr ? Index(plan_->partials[Index(rank)]) : 1; }

  absl::Status OneShot(size_t bytes) {
    char* slot = transport_.NextSlot();
    const size_t own = PartsOf(transport_.rank()) * bytes, note = phase_.call.note;
    Copy(slot, data_, own);
    if (notes_ != nullptr) Copy(slot + own, notes_->own.data(), note);
    for (int rank = 0; rank < world_; ++rank)
      ExpectRemote(rank, slot, own + note, PartsOf(rank) * bytes + note);
    MT_RETURN_IF_ERROR(transport_.Exchange(phase_));
    size_t input = 0;
    for (int rank = 0; rank < world_; ++rank) {
      const size_t parts = PartsOf(rank);
      const char* from = slot;
      if (IsRemote(rank)) {
        from = received_[Index(rank)].data();
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
    if (plan_ != nullptr) return ReduceTree(phase_.call.dtype, *plan_, inputs_, output, count);
    Reduce(phase_.call.dtype, phase_.call.reduce, inputs_, output, count);
  }

  // Leaves the sum of this rank's chunk in result_.
  absl::Status ReduceScatter(char* block, size_t count) {
    const size_t own = PartsOf(transport_.rank());
    const size_t whole = phase_.call.count * element_;  // from one own part to the next
    phase_.stride = area_ != nullptr ? whole : count * element_;
    if (area_ == nullptr && transport_.has_local()) {
      char* slot = transport_.NextSlot();
      for (size_t part = 0; part < own; ++part)
        Copy(slot + part * phase_.stride, block + part * whole, count * element_);
    }
    phase_.exposed = block;
    const Chunk mine = ChunkOf(count, element_, transport_.rank(), world_);
    for (int rank = 0; rank < world_; ++rank) {
      if (!IsRemote(rank)) continue;
      const Chunk theirs = ChunkOf(count, element_, rank, world_);
      const size_t bytes = theirs.size() * element_;
      ExpectRemote(rank, Packed(rank, block + theirs.begin * element_, own, whole, bytes), own * bytes,
                   PartsOf(rank) * mine.size() * element_);
    }
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
      if (IsRemote(rank)) {
        from = received_[Index(rank)].data();
        stride = bytes;
      } else if (rank != transport_.rank() && parts > 0) {
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

  /// Returns the chunk of all own parts for a remote rank, one behind the other.
  const char* Packed(int rank, const char* chunk, size_t parts, size_t stride, size_t bytes) {
    if (parts == 1) return chunk;
    std::vector<char>& packed = packed_[Index(rank)];
    packed.resize(parts * bytes);
    for (size_t part = 0; part < parts; ++part)
      Copy(packed.data() + part * bytes, chunk + part * stride, bytes);
    return packed.data();
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

  bool IsRemote(int rank) const { return rank != transport_.rank() && !transport_.is_local(rank); }

  void ExpectRemote(int rank, const void* send, size_t send_bytes, size_t receive_bytes) {
    if (!IsRemote(rank)) return;
    std::vector<char>& room = received_[Index(rank)];
    if (room.size() < receive_bytes) room.resize(receive_bytes);
    phase_.send[Index(rank)] = {send, send_bytes};
    phase_.receive[Index(rank)] = {room.data(), receive_bytes};
  }

  Transport& transport_;
  const int world_;
  const size_t element_;
  char* const data_;
  Notes* const notes_;
  const TreePlan* const plan_;  // null: one part a rank, reduced in the order of ranks
  std::shared_ptr<Area> area_;  // the area of data_; null if it is ordinary memory
  Phase phase_;
  std::vector<const void*> inputs_;
  std::vector<std::vector<char>> received_, packed_;  // by remote rank
  char* result_ = nullptr;
};

}  // namespace

absl::Status AllReduce(Transport& transport, const Call& call, void* data, Notes* notes,
                       const TreePlan* plan) {
  MT_CHECK(call.note == (notes != nullptr ? notes->own.size() : 0));
  if (notes != nullptr) notes->all.resize(Index(transport.world()));
  return AllReducer(transport, call, data, notes, plan).Run();
}

absl::Status Broadcast(Transport& transport, const Call& call, void* data) {
  const size_t bytes = call.count * SizeOf(call.dtype), block = transport.segment().slot_bytes();
  const bool sender = transport.rank() == call.root;
  Phase phase = EmptyPhase(transport, call);
  for (size_t done = 0; done == 0 || done < bytes; done += block) {
    char* part = static_cast<char*>(data) + done;
    const size_t size = std::min(block, bytes - done);
    if (sender) Copy(transport.NextSlot(), part, size);
    for (size_t rank = 0; rank < phase.send.size(); ++rank) {
      if (sender) phase.send[rank] = {part, size};
      if (!sender && rank == Index(call.root)) phase.receive[rank] = {part, size};
    }
    MT_RETURN_IF_ERROR(transport.Exchange(phase));
    if (!sender && transport.is_local(call.root)) {
      MT_ASSIGN_OR_RETURN(const char* source, transport.View(call.root, size));
      Copy(part, source, size);
    }
  }
  return absl::OkStatus();
}

absl::Status AllGather(Transport& transport, const Call& call, const void* input,
                       const std::vector<void*>& outputs) {
  const size_t bytes = call.count * SizeOf(call.dtype), block = transport.segment().slot_bytes();
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
