#include "trainers/collectives/host_reduce.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "trainers/collectives/host_sum.h"
#include "trainers/collectives/reduce.h"

namespace mtrun::collectives {
namespace {

constexpr size_t kLine = 64;
// Up to so many bytes even shared memory is copied through the slots: that costs less than a phase that waits until
// peers have read it.
constexpr size_t kMaxCopiedBytes = 256 * 1024;

size_t At(int index) { return static_cast<size_t>(index); }

void CopyBytes(void* to, const void* from, size_t bytes) {
  if (bytes > 0 && to != from) std::memcpy(to, from, bytes);
}

/// What a rank exposes of a block. A slot has room for all three, because they are of different blocks.
enum class Shown { kInputs, kOwned, kCarried };

/// One block while it passes the stages.
struct Block {
  size_t offset = 0;                                // bytes before it in each input
  size_t count = 0;                                 // elements
  const std::vector<BlockShare>* shares = nullptr;  // by index of the host's ranks
};

/// The blocks of one phase.
struct Stages {
  std::optional<Block> offered, gathered, returned, spread;
};

class HostReducer {
 public:
  HostReducer(Transport& transport, const Call& call, void* data, Notes* notes, const TreePlan& plan)
      : transport_(transport),
        map_(transport.hosts()),
        rank_(transport.rank()),
        index_(At(map_.index_of[At(rank_)])),
        local_(map_.with(rank_)),
        call_(call),
        element_(SizeOf(call.dtype)),
        whole_(call.count * element_),
        data_(static_cast<char*>(data)),
        notes_(notes),
        plan_(plan),
        sum_(PlanHosts(plan, map_, !RoundsOnce(call.dtype, call.reduce))),
        own_(sum_.hosts[At(map_.host_of[At(rank_)])]) {
    for (size_t rank = 0; rank < plan.partials.size(); ++rank) {
      for (int part = 0; part < plan.partials[rank]; ++part)
        inputs_.push_back({static_cast<int>(rank), At(part)});
    }
  }

  absl::Status Run() {
    Prepare();
    const size_t steps = blocks_ == 0 ? 0 : blocks_ + (map_.shares() ? 3 : 1);
    for (size_t step = 0; step < steps; ++step) MT_RETURN_IF_ERROR(Step(StagesOf(step)));
    if (notes_ != nullptr) return TellNotes();
    // Peers may still be reading the last sums in place.
    return map_.shares() && whole_ > kMaxCopiedBytes ? transport_.Exchange(NewPhase()) : absl::OkStatus();
  }

 private:
  struct Input {
    int rank;
    size_t part;
  };

  void Prepare() {
    if (whole_ > kMaxCopiedBytes)
      area_ = transport_.segment().Find(data_, std::max<size_t>(1, At(plan_.partials[At(rank_)])) * whole_);
    in_place_ = area_ != nullptr || local_.size() == 1;
    most_ = At(std::max(1, plan_.most_partials()));
    const size_t slot = transport_.segment().slot_bytes();
    block_bytes_ = slot / (most_ + 2) / kLine * kLine;
    MT_CHECK(block_bytes_ > 0) << most_ << " partial sums in a slot of " << slot << " bytes";
    block_ = block_bytes_ / element_;
    blocks_ = (call_.count + block_ - 1) / block_;
    if (blocks_ == 0) return;
    shares_ = SharesOf(std::min(block_, call_.count));
    last_shares_ = SharesOf(call_.count - (blocks_ - 1) * block_);
    added_.resize(own_.size());
    for (size_t p = 0; p < own_.size(); ++p) {
      if (!IsOwnInput(own_[p])) added_[p] = std::make_unique_for_overwrite<char[]>(block_bytes_);
    }
    received_.resize(At(sum_.inputs()));
    for (const std::vector<HostPartial>& partials : sum_.hosts) {
      for (const HostPartial& partial : partials) {
        if (&partials != &own_)
          received_[At(partial.number)] =
              std::make_unique_for_overwrite<char[]>(shares_[index_].owned.size() * element_);
      }
    }
  }

  std::vector<BlockShare> SharesOf(size_t count) const {
    std::vector<BlockShare> shares;
    for (const int rank : local_) shares.push_back(ShareOf(map_, rank, count, element_));
    return shares;
  }

  Block BlockOf(size_t number) const {
    const bool last = number + 1 == blocks_;
    return {number * block_bytes_, last ? call_.count - number * block_ : block_,
            last ? &last_shares_ : &shares_};
  }

  Phase NewPhase() const {
    Phase phase;
    phase.call = call_;
    phase.empty_frames = false;
    phase.send.resize(map_.host_of.size());
    phase.receive.resize(map_.host_of.size());
    return phase;
  }

  /// Returns the blocks of one phase. Block n is offered in phase n, or gathered if no host has several ranks.
  Stages StagesOf(size_t step) const {
    const auto block = [&](size_t stage) -> std::optional<Block> {
      if (step < stage || step - stage >= blocks_) return std::nullopt;
      return BlockOf(step - stage);
    };
    if (!map_.shares()) return {std::nullopt, block(0), block(1), std::nullopt};
    return {block(0), block(1), block(2), block(3)};
  }

  absl::Status Step(const Stages& stages) {
    Phase phase = NewPhase();
    phase.area = area_;
    phase.exposed = data_;
    phase.stride = area_ != nullptr ? whole_ : block_bytes_;
    if (stages.offered) Offer(*stages.offered);
    if (stages.gathered) ExpectPartials(*stages.gathered, &phase);
    if (stages.returned) ExpectSums(*stages.returned, &phase);
    MT_RETURN_IF_ERROR(transport_.Exchange(phase));
    if (stages.gathered) AddHosts(*stages.gathered);
    if (stages.returned) MT_RETURN_IF_ERROR(TakeOwned(*stages.returned));
    if (stages.spread) MT_RETURN_IF_ERROR(TakeCarried(*stages.spread));
    return stages.offered ? AddWithinHost(*stages.offered) : absl::OkStatus();
  }

  /// Returns where this rank's slot of the next phase, or that of a peer in this phase, has a block.
  size_t InSlot(Shown shown) const {
    return shown == Shown::kInputs ? 0 : (most_ + (shown == Shown::kCarried ? 1 : 0)) * block_bytes_;
  }

  /// Exposes elements of a block that are in place.
  void Show(Shown shown, const Block& block, const Chunk& chunk, size_t part = 0) {
    if (in_place_) return;
    CopyBytes(transport_.NextSlot() + InSlot(shown) + part * block_bytes_ + chunk.begin * element_,
              InPlace(block, chunk) + part * whole_, chunk.size() * element_);
  }

  /// Returns what a local peer exposes of a block in this phase: of the first of `parts` inputs, or a sum.
  absl::StatusOr<const char*> Seen(int rank, Shown shown, const Block& block, size_t parts = 1) {
    const uint64_t stride = transport_.StrideOf(rank);
    if (stride > std::max(whole_, block_bytes_))
      return absl::InternalError("a peer exposes partial sums beyond its own");
    const size_t offset = transport_.InArea(rank) ? block.offset : InSlot(shown);
    MT_ASSIGN_OR_RETURN(const char* const seen,
                        transport_.View(rank, offset + (parts - 1) * stride + block.count * element_));
    return seen + offset;
  }

  char* InPlace(const Block& block, const Chunk& chunk) const {
    return data_ + block.offset + chunk.begin * element_;
  }

  bool IsOwnInput(const HostPartial& partial) const {
    return partial.inputs.size() == 1 && inputs_[At(partial.inputs[0])].rank == rank_;
  }

  /// Returns the elements of a partial sum of this host.
  const char* Partial(size_t p, const Block& block, const Chunk& chunk) const {
    if (IsOwnInput(own_[p])) return InPlace(block, chunk) + inputs_[At(own_[p].inputs[0])].part * whole_;
    return added_[p].get() + chunk.begin * element_;
  }

  void Offer(const Block& block) {
    for (size_t part = 0; part < At(plan_.partials[At(rank_)]); ++part)
      Show(Shown::kInputs, block, {0, block.count}, part);
  }

  /// Adds the inputs of this host's ranks in what this rank owns and carries.
  absl::Status AddWithinHost(const Block& block) {
    std::vector<const char*> seen(map_.host_of.size());  // by local rank: its first input
    for (const int rank : local_) {
      seen[At(rank)] = InPlace(block, {});
      const size_t parts = At(plan_.partials[At(rank)]);
      if (rank == rank_ || parts == 0) continue;
      MT_ASSIGN_OR_RETURN(seen[At(rank)], Seen(rank, Shown::kInputs, block, parts));
    }
    const BlockShare& share = (*block.shares)[index_];
    for (size_t p = 0; p < own_.size(); ++p) {
      if (IsOwnInput(own_[p])) continue;
      AddPartial(p, seen, share.owned);
      for (const Piece& piece : share.carried) AddPartial(p, seen, piece.chunk);
    }
    return absl::OkStatus();
  }

  void AddPartial(size_t p, const std::vector<const char*>& seen, const Chunk& chunk) {
    std::vector<const void*> terms;
    for (const int number : own_[p].inputs) {
      const Input& input = inputs_[At(number)];
      const size_t stride = input.rank == rank_ ? whole_ : transport_.StrideOf(input.rank);
      terms.push_back(seen[At(input.rank)] + input.part * stride + chunk.begin * element_);
    }
    char* const to = added_[p].get() + chunk.begin * element_;
    if (terms.size() == 1) return CopyBytes(to, terms[0], chunk.size() * element_);
    ReduceTree(call_.dtype, call_.reduce, own_[p].plan, terms, to, chunk.size());
  }

  void ExpectPartials(const Block& block, Phase* phase) {
    const BlockShare& share = (*block.shares)[index_];
    for (const Piece& piece : share.carried) {
      for (size_t p = 0; p < own_.size(); ++p)
        phase->send[At(piece.peer)].push_back(
            {Partial(p, block, piece.chunk), piece.chunk.size() * element_});
    }
    for (const Piece& piece : share.met) {
      for (const HostPartial& partial : sum_.hosts[At(map_.host_of[At(piece.peer)])])
        phase->receive[At(piece.peer)].push_back(
            {received_[At(partial.number)].get() + (piece.chunk.begin - share.owned.begin) * element_,
             piece.chunk.size() * element_});
    }
  }

  void ExpectSums(const Block& block, Phase* phase) {
    const BlockShare& share = (*block.shares)[index_];
    for (const Piece& piece : share.met)
      phase->send[At(piece.peer)].push_back({InPlace(block, piece.chunk), piece.chunk.size() * element_});
    for (const Piece& piece : share.carried)
      phase->receive[At(piece.peer)].push_back({InPlace(block, piece.chunk), piece.chunk.size() * element_});
  }

  /// Adds the partial sums of all hosts in what this rank owns.
  void AddHosts(const Block& block) {
    const Chunk& owned = (*block.shares)[index_].owned;
    std::vector<const void*> terms;
    for (const std::unique_ptr<char[]>& received : received_) terms.push_back(received.get());
    for (size_t p = 0; p < own_.size(); ++p) terms[At(own_[p].number)] = Partial(p, block, owned);
    char* const to = InPlace(block, owned);
    if (RoundsOnce(call_.dtype, call_.reduce)) {
      Reduce(call_.dtype, call_.reduce, terms, to, owned.size());
    } else {
      ReduceTree(call_.dtype, call_.reduce, sum_.last, terms, to, owned.size());
      if (call_.reduce == ReduceOp::kAverage) Divide(call_.dtype, to, owned.size(), transport_.world());
    }
    Show(Shown::kOwned, block, owned);
  }

  /// Takes what the local peers own, and exposes what this rank carries.
  absl::Status TakeOwned(const Block& block) {
    for (size_t i = 0; i < local_.size(); ++i) {
      if (i == index_) continue;
      const Chunk& owned = (*block.shares)[i].owned;
      MT_ASSIGN_OR_RETURN(const char* const seen, Seen(local_[i], Shown::kOwned, block));
      CopyBytes(InPlace(block, owned), seen + owned.begin * element_, owned.size() * element_);
    }
    for (const Piece& piece : (*block.shares)[index_].carried) Show(Shown::kCarried, block, piece.chunk);
    return absl::OkStatus();
  }

  absl::Status TakeCarried(const Block& block) {
    for (size_t i = 0; i < local_.size(); ++i) {
      if (i == index_) continue;
      MT_ASSIGN_OR_RETURN(const char* const seen, Seen(local_[i], Shown::kCarried, block));
      for (const Piece& piece : (*block.shares)[i].carried)
        CopyBytes(InPlace(block, piece.chunk), seen + piece.chunk.begin * element_,
                  piece.chunk.size() * element_);
    }
    return absl::OkStatus();
  }

  /// Sends this rank's note to one rank of each other host, and exposes those that came to this one.
  absl::Status TellNotes() {
    const size_t bytes = notes_->own.size();
    for (std::string& note : notes_->all) note.resize(bytes);
    Phase phase = NewPhase();
    CopyBytes(transport_.NextSlot(), notes_->own.data(), bytes);
    for (size_t rank = 0; rank < map_.host_of.size(); ++rank) {
      if (map_.host_of[rank] == map_.host_of[At(rank_)]) continue;
      const size_t theirs = map_.with(static_cast<int>(rank)).size();
      if (At(map_.index_of[rank]) == index_ % theirs) phase.send[rank].push_back({notes_->own.data(), bytes});
      if (ReaderOf(rank) == rank_) phase.receive[rank].push_back({notes_->all[rank].data(), bytes});
    }
    MT_RETURN_IF_ERROR(transport_.Exchange(phase));
    for (const int rank : local_) {
      const char* seen = notes_->own.data();
      if (rank != rank_) {
        MT_ASSIGN_OR_RETURN(seen, transport_.View(rank, bytes));
      }
      CopyBytes(notes_->all[At(rank)].data(), seen, bytes);
    }
    return map_.shares() ? SpreadNotes() : absl::OkStatus();
  }

  absl::Status SpreadNotes() {
    const size_t bytes = notes_->own.size(), world = map_.host_of.size();
    const auto is_remote = [&](size_t rank) { return map_.host_of[rank] != map_.host_of[At(rank_)]; };
    char* const slot = transport_.NextSlot();
    for (size_t rank = 0; rank < world; ++rank) {
      if (is_remote(rank) && ReaderOf(rank) == rank_)
        CopyBytes(slot + rank * bytes, notes_->all[rank].data(), bytes);
    }
    MT_RETURN_IF_ERROR(transport_.Exchange(NewPhase()));
    for (size_t rank = 0; rank < world; ++rank) {
      if (!is_remote(rank) || ReaderOf(rank) == rank_) continue;
      MT_ASSIGN_OR_RETURN(const char* const seen, transport_.View(ReaderOf(rank), world * bytes));
      CopyBytes(notes_->all[rank].data(), seen + rank * bytes, bytes);
    }
    return absl::OkStatus();
  }

  /// Returns the rank of this host that receives the note of a remote rank.
  int ReaderOf(size_t rank) const { return local_[At(map_.index_of[rank]) % local_.size()]; }

  Transport& transport_;
  const HostMap& map_;
  const int rank_;
  const size_t index_;             // of this rank among its host's
  const std::vector<int>& local_;  // the ranks of this host
  const Call call_;
  const size_t element_, whole_;  // bytes of an element, of an input
  char* const data_;
  Notes* const notes_;
  const TreePlan& plan_;
  const HostSum sum_;
  const std::vector<HostPartial>& own_;  // the partial sums of this host
  std::vector<Input> inputs_;            // of the plan

  std::shared_ptr<Area> area_;  // the area of data_; null if it is ordinary memory
  bool in_place_ = false;       // peers, if there are any, read data_ itself
  size_t most_ = 1;             // inputs of a rank
  size_t block_ = 0, block_bytes_ = 0, blocks_ = 0;
  std::vector<BlockShare> shares_, last_shares_;   // of the last block, and of all others
  std::vector<std::unique_ptr<char[]>> added_;     // by partial sum of this host: elements of one block
  std::vector<std::unique_ptr<char[]>> received_;  // by partial sum of other hosts: what this rank owns
};

}  // namespace

absl::Status ReduceOverHosts(Transport& transport, const Call& call, void* data, Notes* notes,
                             const TreePlan& plan) {
  return HostReducer(transport, call, data, notes, plan).Run();
}

}  // namespace mtrun::collectives
