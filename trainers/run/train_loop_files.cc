// TrainLoop's part in the run's files: who this member is for them, what it draws, and what it saves before
// it goes.
#include "trainers/run/train_loop.h"

#include <filesystem>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/log.h"
#include "base/posix.h"
#include "base/status_macros.h"
#include "trainers/checkpoints/checkpoint.h"
#include "trainers/checkpoints/ledger.h"
#include "trainers/run/fresh_start.h"

namespace mtrun::trainers {
namespace {

/// Some file systems have no locks (ENOLCK, ENOSYS, EOPNOTSUPP, of which ErrnoStatus makes kInternal). Two
/// that save at the same time do less harm than a state that nobody saves.
absl::StatusOr<UniqueFd> AwaitTurn(absl::StatusOr<UniqueFd> lock) {
  if (!absl::IsInternal(lock.status())) return lock;
  log::Warning("the last state is saved without a lock: ", std::string(lock.status().message()));
  return UniqueFd();
}

/// Once the folder is this run's: workers that follow when all of these have died do not start over again.
absl::Status RememberStart(const TrainInputs& in, uint64_t run, RunFiles& files) {
  const auto mark = [&] { return MarkBegun(in.options.model_folder, in.agent, run); };
  // For room on the writer's disk all have to wait, for room on another one nobody.
  const absl::Status marked = files.writes() ? files.WithRoom(mark) : mark();
  if (marked.ok() || absl::IsUnavailable(marked)) return marked;
  log::Warning("should all workers die, the run starts over, for --resume=false: ",
               std::string(marked.message()));
  return absl::OkStatus();
}

}  // namespace

absl::Status TrainLoop::EnterFiles(const RunReplica::Begun& begun) {
  const Assignment& who = membership_.assignment();
  MT_RETURN_IF_ERROR(files_.Enter({.rank = who.rank,
                                   .writer = begun.writer,
                                   .nodes = who.nodes,
                                   .first_on_node = who.first_on_node,
                                   .world = who.world_size,
                                   .members = who.members,
                                   .assigned = membership_.generation()},
                                  FilesStart(begun.fresh, begun.resumed), [this] { return Barrier(); }));
  if (!in_.options.resume && who.first_on_node)
    MT_RETURN_IF_ERROR(RememberStart(in_, replica_.run(), files_));
  if (!begun.fresh || !files_.writes() || !in_.preview) return absl::OkStatus();
  return files_.WithRoom([this]() -> absl::Status {
    MT_ASSIGN_OR_RETURN(const std::string path, in_.preview());
    files_.AddPicture("preview", 0, path);
    return absl::OkStatus();
  });
}

RunFiles::Start TrainLoop::FilesStart(bool fresh, const std::string& resumed) const {
  return {.run = replica_.run(),
          .generation = replica_.generation(),
          .position = replica_.position(),
          .lineage = replica_.lineage(),
          .fresh = fresh,
          .last_save_seconds = replica_.progress().saving,
          .why = resumed.empty()
                     ? why_
                     : absl::StrCat("continued from ", std::filesystem::path(resumed).filename().string()),
          .evaluations = replica_.progress().history,
          .confusion = replica_.progress().confusion};
}

/// After the first step of a new membership.
absl::Status TrainLoop::ReportRegroup() {
  if (!files_.writes()) return absl::OkStatus();
  const TimePoint broke = *std::exchange(broke_, std::nullopt);
  return files_.Record(
      RegroupRecord{.generation = replica_.generation(),
                    .world = membership_.assignment().world_size,
                    .steps = steps(),
                    .assign = ToSeconds(membership_.assigned_at() - broke),
                    .connect = ToSeconds(membership_.connected_at() - membership_.assigned_at()),
                    .state = ToSeconds(entered_ - membership_.connected_at()),
                    .first_step = ToSeconds(MonotonicNow() - entered_)});
}

absl::Status TrainLoop::DrawPicture() {
  const std::string path = absl::StrFormat("%s/samples_%07d.png", in_.options.model_folder, steps());
  {
    const TrainState::Averaged averaged(state_);
    MT_RETURN_IF_ERROR(trainers::DrawPicture(in_.task, path));
  }
  files_.AddPicture("samples", steps(), path);
  return absl::OkStatus();
}

/// Others who hold the state, here or on other nodes, may be told to go at the same time or have died before:
/// the first to come saves it for all.
absl::Status TrainLoop::SaveUnlessSaved() {
  const std::string& path = in_.options.model_folder;
  MT_RETURN_IF_ERROR(CheckRunFolder(path));
  MT_ASSIGN_OR_RETURN(const UniqueFd turn, AwaitTurn(in_.lock_folder(path)));
  MT_ASSIGN_OR_RETURN(const std::optional<uint64_t> run,
                      checkpoints::RunOfLedger(absl::StrCat(path, "/", checkpoints::kLedgerFile)));
  if (run && *run != replica_.run()) return absl::OkStatus();  // another one has the folder now
  MT_ASSIGN_OR_RETURN(const std::vector<checkpoints::SavedPosition> complete,
                      checkpoints::CompletePositions(checkpoints::RealFiles(), path));
  std::vector<checkpoints::Position> saved;
  for (const checkpoints::SavedPosition& each : complete) saved.push_back(each.position);
  const checkpoints::LedgerEnd ledger =
      checkpoints::EndOfLedger(absl::StrCat(path, "/", checkpoints::kLedgerFile))
          .value_or(checkpoints::LedgerEnd{});
  switch (LastSaveOf(replica_.exists(), replica_.position(), replica_.generation(), saved, ledger)) {
    case LastSave::kNone:
      return absl::OkStatus();
    case LastSave::kWriter:
      MT_RETURN_IF_ERROR(files_.BecomeWriter(FilesStart(/*fresh=*/false)));
      break;
    case LastSave::kBeside:
      files_.SaveBeside(FilesStart(/*fresh=*/false));
      break;
  }
  MT_RETURN_IF_ERROR(Save());
  return files_.Wait();
}

}  // namespace mtrun::trainers
