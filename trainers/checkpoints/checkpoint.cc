#include "trainers/checkpoints/checkpoint.h"

#include <numeric>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/sha256.h"
#include "base/status_macros.h"
#include "base/string_view.h"
#include "trainers/checkpoints/manifest.h"

namespace mtrun::checkpoints {
namespace {

using Pieces = std::vector<absl::Span<const uint8_t>>;

/// Space beside the tensors: headers, state, the file system's own blocks.
constexpr int64_t kSpareBytes = 4 << 20;

int64_t TotalBytes(const Pieces& pieces) {
  return std::accumulate(pieces.begin(), pieces.end(), int64_t{0}, [](int64_t sum, const auto& piece) {
    return sum + static_cast<int64_t>(piece.size());
  });
}

FileRecord RecordOf(const Pieces& pieces) {
  Sha256 digest;
  for (const auto& piece : pieces) {
    digest.Update(std::string_view(reinterpret_cast<const char*>(piece.data()), piece.size()));
  }
  return {TotalBytes(pieces), digest.Hex()};
}

/// One save: the files so far and their entries in DONE.
class Save {
 public:
  Save(Files& files, std::string folder) : files_(files), folder_(std::move(folder)) {}

  absl::Status Add(const std::string& name, const Pieces& pieces) {
    MT_RETURN_IF_ERROR(WriteWhole(files_, folder_ + "/" + name, pieces));
    manifest_[name] = RecordOf(pieces);
    return absl::OkStatus();
  }

  absl::Status AddTensors(const std::string& name, const TensorFile& file) {
    MT_CHECK(file.infos.size() == file.bytes.size()) << name;
    MT_ASSIGN_OR_RETURN(const datasets::SafetensorsHeader header,
                        datasets::LayOutTensors(file.infos, file.metadata));
    MT_ASSIGN_OR_RETURN(const std::string head, datasets::EncodeSafetensorsHeader(header));
    Pieces pieces = {BytesOf(head)};
    pieces.insert(pieces.end(), file.bytes.begin(), file.bytes.end());
    return Add(name, pieces);
  }

  absl::Status Finish() {
    const std::string done = EncodeManifest(manifest_);
    MT_RETURN_IF_ERROR(WriteWhole(files_, folder_ + "/" + kDoneFile, {BytesOf(done)}));
    return files_.SyncFolder(folder_);
  }

 private:
  Files& files_;
  const std::string folder_;
  Manifest manifest_;
};

absl::Status CheckRoom(Files& files, const std::string& root, const Snapshot& snapshot) {
  MT_ASSIGN_OR_RETURN(const int64_t free, files.FreeBytes(root));
  const int64_t needed = snapshot.TensorBytes() + kSpareBytes;
  if (free >= needed) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat("a checkpoint needs ", needed >> 20, " MiB, but ", root,
                                                   " has ", free >> 20,
                                                   " MiB free; free some space or lower keep_checkpoints"));
}

absl::Status WriteFiles(Files& files, const std::string& folder, const Snapshot& snapshot) {
  MT_RETURN_IF_ERROR(files.MakeFolder(folder));
  Save save(files, folder);
  MT_RETURN_IF_ERROR(save.AddTensors(kModelFile, snapshot.model));
  MT_RETURN_IF_ERROR(save.AddTensors(kOptimizerFile, snapshot.optimizer));
  MT_RETURN_IF_ERROR(save.Add(kStateFile, {BytesOf(snapshot.state)}));
  return save.Finish();
}

std::optional<Position> PositionOf(const std::string& state) {
  const absl::StatusOr<RunState> decoded = DecodeRunState(state);
  return decoded.ok() ? std::optional(decoded->position) : std::nullopt;
}

bool Supersedes(const Snapshot& snapshot, const Checkpoint& other) {
  const std::optional<Position> ours = PositionOf(snapshot.state), theirs = PositionOf(other.state);
  return ours && theirs && ours->generation > theirs->generation;
}

/// Returns whether bytes are missing or differ from those that were saved. If the disk refuses to read a
/// file, the file may be intact.
bool IsDamage(const absl::Status& status) {
  return absl::IsNotFound(status) || absl::IsDataLoss(status) || absl::IsInvalidArgument(status);
}

/// Returns true if this step exists and is intact. A damaged one is renamed so that searches ignore it.
absl::StatusOr<bool> HasIntact(Files& files, const std::string& root, const Snapshot& snapshot,
                               std::string_view unique) {
  const int64_t step = snapshot.step;
  const std::string path = absl::StrCat(root, "/", StepFolder(step));
  if (!files.Exists(path)) return false;
  const auto there = ReadCheckpoint(files, path, step);
  if (there.ok()) return !Supersedes(snapshot, *there);
  if (!IsDamage(there.status())) return Annotate(there.status(), path);
  const std::string aside = absl::StrCat(root, "/.", StepFolder(step), ".damaged-", View(unique));
  MT_RETURN_IF_ERROR(files.Rename(path, aside));
  return false;
}

absl::StatusOr<RunState> StateOn(Files& files, const std::string& root, int64_t step) {
  MT_ASSIGN_OR_RETURN(const std::string text,
                      files.Read(absl::StrCat(root, "/", StepFolder(step), "/", kStateFile)));
  return DecodeRunState(text);
}

std::optional<Position> PositionOn(Files& files, const std::string& root, int64_t step) {
  const absl::StatusOr<RunState> state = StateOn(files, root, step);
  return state.ok() ? std::optional(state->position) : std::nullopt;
}

/// Returns the name of a folder that does not exist in `root` yet.
std::string FreeBranchName(Files& files, const std::string& root, const Position& position) {
  for (int number = 1;; ++number) {
    std::string name = BranchFolder(position, number);
    if (!files.Exists(absl::StrCat(root, "/", name))) return name;
  }
}

/// Renames a complete step to a branch, and returns the new name.
absl::StatusOr<std::string> MakeBranch(Files& files, const std::string& root, const Position& position) {
  const std::string name = FreeBranchName(files, root, position);
  MT_RETURN_IF_ERROR(
      files.Rename(absl::StrCat(root, "/", StepFolder(position.steps)), absl::StrCat(root, "/", name)));
  MT_RETURN_IF_ERROR(files.SyncFolder(root));
  return name;
}

/// Renames a step to a partial name, which it returns, so that an interrupted removal leaves no step that
/// looks whole.
absl::StatusOr<std::string> SetAside(Files& files, const std::string& root, int64_t step) {
  const std::string aside = absl::StrCat(root, "/", PartialFolder(step, "removed"));
  MT_RETURN_IF_ERROR(files.Remove(aside));
  MT_RETURN_IF_ERROR(files.Rename(absl::StrCat(root, "/", StepFolder(step)), aside));
  return aside;
}

/// Replaces a step if the file system cannot exchange names. For a moment no folder has the step's name. If a
/// run begins then, it continues from the previous step.
absl::Status ReplaceInTurn(Files& files, const std::string& root, const Position& superseded,
                           const std::string& partial) {
  MT_ASSIGN_OR_RETURN(const std::string branch, MakeBranch(files, root, superseded));
  const std::string path = absl::StrCat(root, "/", StepFolder(superseded.steps));
  if (const absl::Status renamed = files.Rename(partial, path); !renamed.ok()) {
    files.Rename(absl::StrCat(root, "/", branch), path).IgnoreError();
    return renamed;
  }
  return files.SyncFolder(root);
}

/// Replaces a checkpoint of as many steps, which becomes a branch. The new one has the branch's name first,
/// so that a crash at any moment leaves both under names that no clean-up removes.
absl::Status Replace(Files& files, const std::string& root, const Snapshot& snapshot,
                     const Position& superseded, const std::string& partial) {
  // Asked again, because reading the existing checkpoint may have taken long.
  if (snapshot.may_commit) MT_RETURN_IF_ERROR(snapshot.may_commit());
  const std::string branch = absl::StrCat(root, "/", FreeBranchName(files, root, superseded));
  MT_RETURN_IF_ERROR(files.Rename(partial, branch));
  const absl::Status exchanged = files.Exchange(branch, absl::StrCat(root, "/", StepFolder(snapshot.step)));
  if (exchanged.ok()) return files.SyncFolder(root);
  MT_RETURN_IF_ERROR(files.Rename(branch, partial));
  if (absl::IsUnimplemented(exchanged)) return ReplaceInTurn(files, root, superseded, partial);
  return exchanged;
}

absl::Status Publish(Files& files, const std::string& root, const Snapshot& snapshot,
                     const std::string& partial) {
  MT_RETURN_IF_ERROR(WriteFiles(files, partial, snapshot));
  if (snapshot.may_commit) MT_RETURN_IF_ERROR(snapshot.may_commit());
  const std::string path = absl::StrCat(root, "/", StepFolder(snapshot.step));
  const absl::Status renamed = files.Rename(partial, path);
  if (absl::IsAlreadyExists(renamed)) {
    const absl::StatusOr<Checkpoint> there = ReadCheckpoint(files, path, snapshot.step);
    if (there.ok() && Supersedes(snapshot, *there))
      return Replace(files, root, snapshot, *PositionOf(there->state), partial);
    // Another writer of a shared folder was faster, with the same contents.
    if (there.ok()) return files.Remove(partial);
  }
  MT_RETURN_IF_ERROR(renamed);
  return files.SyncFolder(root);
}

absl::StatusOr<std::string> ReadVerified(Files& files, const std::string& folder, const Manifest& manifest,
                                         const std::string& name) {
  const auto record = manifest.find(name);
  if (record == manifest.end()) return absl::DataLossError(absl::StrCat(name, " is not listed in DONE"));
  auto text = files.Read(folder + "/" + name);
  if (absl::IsNotFound(text.status())) return absl::DataLossError(text.status().message());
  MT_RETURN_IF_ERROR(text.status());
  if (static_cast<int64_t>(text->size()) != record->second.bytes) {
    return absl::DataLossError(
        absl::StrCat(name, " has ", text->size(), " bytes instead of ", record->second.bytes));
  }
  if (Sha256Hex(*text) != record->second.sha256) {
    return absl::DataLossError(absl::StrCat(name, " does not match its SHA-256 in DONE"));
  }
  return *std::move(text);
}

}  // namespace

int64_t Snapshot::TensorBytes() const { return TotalBytes(model.bytes) + TotalBytes(optimizer.bytes); }

absl::Status WriteCheckpoint(Files& files, const std::string& root, const Snapshot& snapshot,
                             std::string_view unique) {
  MT_RETURN_IF_ERROR(files.MakeFolder(root));
  MT_ASSIGN_OR_RETURN(const bool there, HasIntact(files, root, snapshot, unique));
  if (there) return absl::OkStatus();
  MT_RETURN_IF_ERROR(CheckRoom(files, root, snapshot));
  if (snapshot.arrived) MT_RETURN_IF_ERROR(snapshot.arrived());
  const std::string partial = absl::StrCat(root, "/", PartialFolder(snapshot.step, unique));
  const absl::Status status = Publish(files, root, snapshot, partial);
  // The first error is reported. If the disk refuses the removal too, a hidden folder remains.
  if (!status.ok()) files.Remove(partial).IgnoreError();
  return status;
}

absl::StatusOr<std::string> DigestOfWeights(Files& files, const std::string& root, int64_t step) {
  MT_ASSIGN_OR_RETURN(const std::string done,
                      files.Read(absl::StrCat(root, "/", StepFolder(step), "/", kDoneFile)));
  MT_ASSIGN_OR_RETURN(const Manifest manifest, DecodeManifest(done));
  const auto record = manifest.find(kModelFile);
  if (record == manifest.end())
    return absl::DataLossError(absl::StrCat(kModelFile, " is not listed in DONE"));
  return record->second.sha256;
}

absl::StatusOr<Checkpoint> ReadCheckpoint(Files& files, const std::string& path, int64_t step) {
  auto done = files.Read(absl::StrCat(path, "/", kDoneFile));
  if (absl::IsNotFound(done.status())) return absl::NotFoundError("no DONE file: its save did not complete");
  MT_RETURN_IF_ERROR(done.status());
  MT_ASSIGN_OR_RETURN(const Manifest manifest, DecodeManifest(*done));
  Checkpoint checkpoint{.step = step, .path = path, .model = {}, .optimizer = {}, .state = {}};
  MT_ASSIGN_OR_RETURN(checkpoint.state, ReadVerified(files, path, manifest, kStateFile));
  MT_ASSIGN_OR_RETURN(checkpoint.optimizer, ReadVerified(files, path, manifest, kOptimizerFile));
  MT_ASSIGN_OR_RETURN(checkpoint.model, ReadVerified(files, path, manifest, kModelFile));
  return checkpoint;
}

absl::StatusOr<std::vector<int64_t>> CompleteSteps(Files& files, const std::string& root) {
  MT_ASSIGN_OR_RETURN(const std::vector<std::string> names, files.List(root));
  std::vector<int64_t> steps;
  for (const std::string& name : names) {
    const std::optional<int64_t> step = ParseStepFolder(name);
    if (step && files.Exists(absl::StrCat(root, "/", name, "/", kDoneFile))) steps.push_back(*step);
  }
  std::sort(steps.begin(), steps.end());
  return steps;
}

absl::StatusOr<std::vector<SavedPosition>> CompletePositions(Files& files, const std::string& root) {
  MT_ASSIGN_OR_RETURN(const std::vector<int64_t> steps, CompleteSteps(files, root));
  std::vector<SavedPosition> saved;
  for (const int64_t step : steps) {
    const absl::StatusOr<RunState> state = StateOn(files, root, step);
    saved.push_back(state.ok() ? SavedPosition{state->run, state->position}
                               : SavedPosition{0, {.generation = 0, .steps = step}});
  }
  return saved;
}

std::optional<RunState> StateOfNewest(Files& files, const std::string& root) {
  const auto steps = CompleteSteps(files, root);
  if (!steps.ok() || steps->empty()) return std::nullopt;
  auto state = StateOn(files, root, steps->back());
  return state.ok() ? std::optional(*std::move(state)) : std::nullopt;
}

absl::StatusOr<Search> FindNewest(Files& files, const std::string& root,
                                  const std::optional<Position>& above) {
  MT_ASSIGN_OR_RETURN(const std::vector<std::string> names, files.List(root));
  std::vector<std::tuple<bool, Position, int64_t>> found;
  for (const std::string& name : names) {
    const std::optional<int64_t> step = ParseStepFolder(name);
    if (!step) continue;
    const std::optional<Position> position = PositionOn(files, root, *step);
    if (above && !(position && *position > *above)) continue;
    found.emplace_back(!position, position.value_or(Position()), *step);
  }
  std::sort(found.rbegin(), found.rend());
  Search search;
  absl::Status refused;
  for (const auto& [unknown, position, step] : found) {
    const std::string name = StepFolder(step);
    auto checkpoint = ReadCheckpoint(files, absl::StrCat(root, "/", name), step);
    if (checkpoint.ok()) {
      search.newest = *std::move(checkpoint);
      break;
    }
    search.passed_over.push_back(absl::StrCat(name, ": ", checkpoint.status().message()));
    if (refused.ok() && !IsDamage(checkpoint.status())) refused = checkpoint.status();
  }
  if (search.newest || refused.ok()) return search;
  return Annotate(refused, absl::StrCat(root, " has a checkpoint that cannot be read"));
}

absl::Status RemovePartialFolders(Files& files, const std::string& root,
                                  const std::function<bool(const std::string& name)>& aborted) {
  MT_ASSIGN_OR_RETURN(const std::vector<std::string> names, files.List(root));
  for (const std::string& name : names) {
    if (IsPartialFolder(name) && aborted(name))
      MT_RETURN_IF_ERROR(files.Remove(absl::StrCat(root, "/", name)));
  }
  return absl::OkStatus();
}

absl::Status RemoveOldSteps(Files& files, const std::string& root, int64_t step,
                            const std::optional<RunState>& saved, int keep_last,
                            std::optional<int64_t> best) {
  MT_ASSIGN_OR_RETURN(const std::vector<int64_t> steps, CompleteSteps(files, root));
  for (const int64_t old : StepsToRemove(steps, step, keep_last, best)) {
    const std::optional<Position> position = PositionOn(files, root, old);
    if (saved && !position) continue;  // its run is unknown
    if (saved && !Descends(saved->lineage, *position)) {
      MT_RETURN_IF_ERROR(MakeBranch(files, root, *position).status());
      continue;
    }
    MT_ASSIGN_OR_RETURN(const std::string aside, SetAside(files, root, old));
    MT_RETURN_IF_ERROR(files.Remove(aside));
  }
  return absl::OkStatus();
}

}  // namespace mtrun::checkpoints
