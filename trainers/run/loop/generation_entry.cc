#include "trainers/run/loop/generation_entry.h"

#include <filesystem>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/counted.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "trainers/run/files/fresh_start.h"
#include "trainers/run/loop/agreement.h"

namespace mtrun::trainers {
namespace {

/// Marks the folder as this run's. If all these workers die, those that follow do not start over again.
absl::Status RememberStart(const TrainInputs& in, uint64_t run, RunFiles& files) {
  const auto mark = [&] { return MarkBegun(in.options.model_folder, in.agent, run); };
  // All members have to wait for space on the writer's disk, but none for space on another disk.
  const absl::Status marked = files.writes() ? files.WithRoom(mark) : mark();
  if (marked.ok() || absl::IsUnavailable(marked)) return marked;
  log::Warning("if all workers die, the run will start over because of --resume=false: ",
               std::string(marked.message()));
  return absl::OkStatus();
}

absl::Status OtherMachines(const std::string& what) {
  return absl::FailedPreconditionError(absl::StrCat("--same_kind require: ", what));
}

}  // namespace

void GenerationEntry::NoteEnd(std::string why, TimePoint now) {
  why_ = std::move(why);
  broke_ = now;
}

absl::StatusOr<RunReplica::Begun> GenerationEntry::Enter() {
  MT_RETURN_IF_ERROR(run_.files.Flush());
  MT_ASSIGN_OR_RETURN(const Machines machines, CheckMembersAgree());
  const TrainInputs& in = run_.in;
  MT_ASSIGN_OR_RETURN(const RunReplica::Begun begun,
                      run_.replica.Enter(run_.membership, in.options.resume, in.agent));
  run_.replica.SettleThreads(in.options.threads != 0);
  MT_RETURN_IF_ERROR(SettleMachines(machines));
  const RunProgress& progress = run_.replica.progress();
  if (begun.received || !begun.resumed.empty()) run_.files.Forget(progress.last_step);
  MT_RETURN_IF_ERROR(EnterFiles(begun));
  run_.lifecycle.Enter(run_.membership.assignment().world_size, run_.membership.elastic(), run_.files.saves(),
                       progress.finished);
  Announce(begun);
  return begun;
}

absl::StatusOr<Machines> GenerationEntry::CheckMembersAgree() const {
  absl::StatusOr<Machines> machines = CheckAgreement(run_.membership.group(), run_.in.identity);
  if (machines.ok() && RequiresOneKind() && !machines->by_rank.empty())
    machines = OtherMachines(DescribeOtherMachines({}, *machines, 0));
  if (absl::IsFailedPrecondition(machines.status()) && run_.replica.exists())
    return absl::UnavailableError(machines.status().message());
  return machines;
}

/// Adds the members' kinds of machines to those of the run, which all members know.
absl::Status GenerationEntry::SettleMachines(const Machines& machines) {
  std::vector<std::string>& kinds = run_.replica.progress().machines;
  const std::string other = DescribeOtherMachines(kinds, machines, run_.steps());
  if (!other.empty() && RequiresOneKind()) return OtherMachines(other);
  if (!other.empty() && run_.membership.assignment().rank == 0)
    log::Warning(other, "; --same_kind require refuses that");
  kinds = AllKinds(kinds, machines);
  return absl::OkStatus();
}

bool GenerationEntry::RequiresOneKind() const { return run_.in.options.same_kind == "require"; }

absl::Status GenerationEntry::EnterFiles(const RunReplica::Begun& begun) {
  const Assignment& who = run_.membership.assignment();
  RunFiles& files = run_.files;
  RunFiles::Start start = run_.FilesStart();
  start.fresh = begun.fresh;
  start.why = begun.resumed.empty()
                  ? why_
                  : absl::StrCat("continued from ", std::filesystem::path(begun.resumed).filename().string());
  MT_RETURN_IF_ERROR(
      files.Enter({.who = who, .writer = begun.writer, .assigned = run_.membership.generation()}, start,
                  [this] { return run_.Barrier(); }));
  if (!run_.in.options.resume && who.first_on_node)
    MT_RETURN_IF_ERROR(RememberStart(run_.in, run_.replica.run(), files));
  if (!begun.fresh || !files.writes() || !run_.in.preview) return absl::OkStatus();
  return files.WithRoom([this]() -> absl::Status {
    MT_ASSIGN_OR_RETURN(const std::string path, run_.in.preview());
    run_.files.AddPicture("preview", 0, path);
    return absl::OkStatus();
  });
}

void GenerationEntry::Announce(const RunReplica::Begun& begun) const {
  const Assignment& who = run_.membership.assignment();
  ProgressLine& progress = run_.progress;
  progress.SetQuiet(!ShowsProgress(who, progress.terminal()));
  const bool resumed = !begun.resumed.empty();
  if (who.rank == 0 && (begun.fresh || (resumed && !begun.held)) && run_.in.greeting)
    progress.Print(run_.in.greeting(progress.columns().value_or(0)));
  const std::string text = ContinuationText(begun, who, run_.steps(), progress.terminal());
  if (!text.empty()) progress.Print(text);
  if (resumed && run_.steps() >= run_.length.steps)
    progress.Print(
        absl::StrCat("this run is complete: more --epochs continue it, another --model_folder than ",
                     run_.in.options.model_folder, " begins a new one"));
  // Warns if the checkpoint is of a run of another length.
  const int64_t earlier = run_.replica.progress().schedule_steps;
  if (!resumed || earlier == 0 || who.rank != 0) return;
  const std::string other =
      DescribeOtherSchedule(run_.schedule, earlier, run_.steps(), run_.length.steps_per_epoch);
  if (!other.empty()) log::Warning(other);
}

absl::Status GenerationEntry::RecordRegroup(TimePoint began) {
  const std::optional<TimePoint> broke = std::exchange(broke_, std::nullopt);
  if (!broke || !run_.files.writes()) return absl::OkStatus();
  const Membership& membership = run_.membership;
  return run_.files.Record(
      RegroupRecord{.generation = run_.replica.generation(),
                    .world = membership.assignment().world_size,
                    .steps = run_.steps(),
                    .assign = ToSeconds(membership.assigned_at() - *broke),
                    .connect = ToSeconds(membership.connected_at() - membership.assigned_at()),
                    .state = ToSeconds(began - membership.connected_at()),
                    .first_step = ToSeconds(MonotonicNow() - began)});
}

bool ShowsProgress(const Assignment& who, bool terminal) {
  return who.rank == 0 || (terminal && who.first_on_node);
}

std::string ContinuationText(const RunReplica::Begun& begun, const Assignment& who, int64_t steps,
                             bool launcher_tells) {
  if (!begun.resumed.empty()) return absl::StrCat("resumed from ", begun.resumed, " at step ", steps);
  if (begun.fresh) return "";
  const std::string workers = Counted(who.world_size, "worker");
  // The node of rank 0 has a replaced worker; nodes that join come after it.
  if (begun.received && !begun.held && who.rank > 0) {
    const int last = who.rank + who.local_world_size - 1;
    const std::string ranks =
        last == who.rank ? absl::StrCat("rank ", last) : absl::StrCat("ranks ", who.rank, "-", last);
    return absl::StrCat("joined: ", workers, ", this node has ", ranks, ", step ", steps, " continues");
  }
  return launcher_tells ? "" : absl::StrCat("continuing with ", workers, " at step ", steps);
}

}  // namespace mtrun::trainers
