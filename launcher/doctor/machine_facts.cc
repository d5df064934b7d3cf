#include "launcher/doctor/machine_facts.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstdlib>
#include <filesystem>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/control_groups.h"
#include "base/file_limit.h"
#include "base/folder_names.h"
#include "base/posix.h"
#include "launcher/cli/machine.h"
#include "rendezvous/service/state_folder.h"

namespace mtrun::launcher {
namespace {

namespace fs = std::filesystem;

bool IsNumber(absl::string_view text) {
  return !text.empty() && std::ranges::all_of(text, [](unsigned char c) { return std::isdigit(c) != 0; });
}

std::string Text(const std::string& path) { return ReadFile(path).value_or(""); }

uint64_t LimitOf(rlim_t limit) { return limit == RLIM_INFINITY ? kNoLimit : limit; }

/// Returns the number after "Threads:" and the like; 0 for none.
uint64_t FieldOf(const std::string& status, absl::string_view field) {
  for (absl::string_view line : absl::StrSplit(status, '\n')) {
    if (!absl::ConsumePrefix(&line, field)) continue;
    const std::vector<absl::string_view> words =
        absl::StrSplit(line, absl::ByAnyChar(" \t"), absl::SkipEmpty());
    uint64_t number = 0;
    return !words.empty() && absl::SimpleAtoi(words.front(), &number) ? number : 0;
  }
  return 0;
}

/// Returns the number of this user's processes and threads, as the kernel counts them.
uint64_t ThreadsOfUser(const std::string& root) {
  uint64_t threads = 0;
  for (const std::string& name : NamesIn(root + "/proc")) {
    if (!IsNumber(name)) continue;
    const std::string status = Text(absl::StrCat(root, "/proc/", name, "/status"));
    if (!status.empty() && FieldOf(status, "Uid:") == getuid()) threads += FieldOf(status, "Threads:");
  }
  return threads;
}

uint64_t Rest(uint64_t limit, uint64_t used) {
  return limit == kNoLimit ? limit : limit - std::min(limit, used);
}

/// Returns how many more processes one control group allows.
uint64_t RoomIn(const std::string& folder) {
  uint64_t most = 0, used = 0;
  if (!absl::SimpleAtoi(Text(folder + "/pids.max"), &most)) return kNoLimit;  // "max", or no such file
  return absl::SimpleAtoi(Text(folder + "/pids.current"), &used) ? Rest(most, used) : most;
}

LimitFacts LookAtLimits(const std::string& root) {
  LimitFacts facts;
  facts.worker_files = LimitOf(InheritedFileLimit().rlim_cur);
  facts.own_files = LimitOf(InheritedFileLimit().rlim_max);
  rlimit limit = {};
  // The kernel does not limit root.
  if (geteuid() != 0 && getrlimit(RLIMIT_NPROC, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY) {
    facts.processes = Rest(limit.rlim_cur, ThreadsOfUser(root));
    facts.processes_from = "ulimit -u";
  }
  if (const uint64_t room = ProcessesOfGroups(root); room < facts.processes) {
    facts.processes = room;
    facts.processes_from = "pids.max of the control group";
  }
  if (getrlimit(RLIMIT_MEMLOCK, &limit) == 0) facts.locked_memory = LimitOf(limit.rlim_cur);
  facts.infiniband = !NamesIn(root + "/sys/class/infiniband").empty();
  return facts;
}

uint64_t FreeBytes(const std::string& path) {
  const absl::StatusOr<int64_t> bytes = FreeDiskBytes(path);
  return bytes.ok() ? static_cast<uint64_t>(std::max<int64_t>(*bytes, 0)) : 0;
}

/// Returns 0 if a file can be made in `folder`, otherwise errno. A file without a name leaves nothing behind,
/// but some file systems do not support it.
int TryToWrite(const std::string& folder) {
  const UniqueFd file(open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
  if (file.valid()) return write(file.get(), "x", 1) == 1 ? 0 : errno;
  if (errno != EOPNOTSUPP && errno != EISDIR && errno != ENOENT) return errno;
  std::string inner = folder + "/.mtrun-doctor-XXXXXX";
  if (mkdtemp(inner.data()) == nullptr) return errno;
  return rmdir(inner.c_str()) == 0 ? 0 : errno;
}

SharedMemoryFacts LookAtSharedMemory() {
  SharedMemoryFacts facts;
  constexpr char kFolder[] = "/dev/shm";
  facts.free = FreeBytes(kFolder);
  const int error = TryToWrite(kFolder);
  if (error == ENOSPC) facts.free = 0;
  if (error != 0 && error != ENOSPC)
    facts.shm_error = std::string(ErrnoStatus(error, "write to /dev/shm").message());
  const UniqueFd file(memfd_create("mtrun-doctor", MFD_CLOEXEC));
  if (!file.valid() || write(file.get(), "x", 1) != 1)
    facts.memory_file_error = std::string(ErrnoStatus(errno, "memfd_create").message());
  return facts;
}

std::vector<FolderFacts> LookAtFolders(const std::string& log_dir, const EnvironmentMap& environment) {
  const std::string state = rendezvous::StateFolderOf(environment);
  std::vector<FolderFacts> folders;
  if (!log_dir.empty() && log_dir != "/dev/null")
    folders.push_back(LookAtFolder("log folder", log_dir, true));
  folders.push_back(LookAtFolder(log_dir.empty() ? "logs and state" : "state folder", state, false));
  std::error_code error;
  folders.push_back(LookAtFolder("runs", fs::current_path(error) / "runs", false));
  folders.back().for_runs = true;
  return folders;
}

GpuFacts LookAtGpus(const EnvironmentMap& environment, const std::string& root) {
  GpuFacts facts;
  facts.listed = static_cast<int>(ListedGpus(root).size());
  const GpuFiles files = FindGpuFiles(root);
  facts.present = static_cast<int>(files.present.size());
  facts.usable = static_cast<int>(files.usable.size());
  const auto opens = [](const std::string& path) { return access(path.c_str(), R_OK | W_OK) == 0; };
  if (facts.present > 0) {
    for (const char* beside : {"/dev/nvidiactl", "/dev/nvidia-uvm"})
      if (facts.closed.empty() && !opens(root + beside)) facts.closed = beside;
  }
  facts.visible = static_cast<int>(VisibleGpus(CountGpus(root), environment).size());
  if (const auto found = environment.find("CUDA_VISIBLE_DEVICES"); found != environment.end())
    facts.chosen = found->second;
  // "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.15  Tue Mar  5 ..."
  const std::string version = Text(root + "/proc/driver/nvidia/version");
  for (absl::string_view word : absl::StrSplit(version, absl::ByAnyChar(" \n"), absl::SkipEmpty())) {
    if (facts.driver.empty() && std::isdigit(static_cast<unsigned char>(word[0])) &&
        absl::StrContains(word, '.'))
      facts.driver = std::string(word);
  }
  void* library = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL);
  facts.has_library = library != nullptr;
  if (library != nullptr) dlclose(library);
  return facts;
}

}  // namespace

FolderFacts LookAtFolder(const std::string& holds, const std::string& path, bool given) {
  FolderFacts facts{.holds = holds, .path = path, .given = given};
  if (path.empty()) return facts;
  std::error_code error;
  fs::path there = fs::absolute(path, error);
  while (!fs::exists(there, error) && there.has_relative_path()) there = there.parent_path();
  if (!fs::is_directory(there, error)) {
    facts.error = absl::StrCat(there.string(), " is not a folder");
  } else if (const int why = TryToWrite(there); why != 0 && why != ENOSPC) {
    facts.error =
        std::string(ErrnoStatus(why, absl::StrCat(there == path ? "write to " : "make ", path)).message());
  } else {
    facts.free = why == 0 ? FreeBytes(there) : 0;
  }
  return facts;
}

uint64_t ProcessesOfGroups(const std::string& root) {
  uint64_t least = kNoLimit;
  for (const ControlGroup& group : ControlGroupsOf("pids", root))
    least = std::min(least, RoomIn(group.folder));
  return least;
}

HostFacts LookAtHost(const std::string& log_dir, const EnvironmentMap& environment, const std::string& root) {
  return {LookAtLimits(root), LookAtSharedMemory(), LookAtFolders(log_dir, environment),
          LookAtGpus(environment, root)};
}

}  // namespace mtrun::launcher
