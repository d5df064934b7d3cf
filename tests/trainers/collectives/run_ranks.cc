#include "tests/trainers/collectives/run_ranks.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/inotify.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <thread>

#include <gtest/gtest.h>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace mtrun::collectives {
namespace {

constexpr int kPatienceMilliseconds = 180000;  // eight ranks under TSan on two busy cores

std::string FileOf(const std::string& folder, std::string_view key) {
  return folder + "/" + absl::BytesToHexString(absl::string_view(key.data(), key.size()));
}

bool WaitReadable(int fd) {
  pollfd event = {fd, POLLIN, 0};
  int count = 0;
  while ((count = poll(&event, 1, kPatienceMilliseconds)) < 0 && errno == EINTR) {
  }
  return count > 0;
}

}  // namespace

FolderBootstrap::FolderBootstrap(std::string folder) : folder_(std::move(folder)) {}

absl::Status FolderBootstrap::Set(std::string_view key, std::string_view value) {
  // Skips the fsyncs of WriteFileAtomically: nothing here has to survive a machine failure.
  static std::atomic<int> count = 0;
  const std::string beside = absl::StrCat(folder_, "/.", getpid(), "-", count++);
  const UniqueFd file(open(beside.c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
  if (!file.valid()) return ErrnoStatus(errno, beside);
  MT_RETURN_IF_ERROR(WriteAll(file.get(), value));
  return rename(beside.c_str(), FileOf(folder_, key).c_str()) == 0 ? absl::OkStatus()
                                                                   : ErrnoStatus(errno, beside);
}

absl::StatusOr<std::map<std::string, std::string>> FolderBootstrap::Wait(
    const std::vector<std::string>& keys) {
  const UniqueFd watch(inotify_init1(IN_CLOEXEC | IN_NONBLOCK));
  MT_CHECK(watch.valid() && inotify_add_watch(watch.get(), folder_.c_str(), IN_MOVED_TO | IN_CREATE) >= 0)
      << errno;
  while (true) {
    if (aborted_.failed()) return aborted_.status();
    std::map<std::string, std::string> values;
    for (const std::string& key : keys) {
      if (auto text = ReadFile(FileOf(folder_, key)); text.ok()) values[key] = *text;
    }
    if (values.size() == keys.size()) return values;
    pollfd events[] = {{watch.get(), POLLIN, 0}, {aborted_.event_fd(), POLLIN, 0}};
    poll(events, 2, -1);
    char drained[4096];
    while (read(watch.get(), drained, sizeof(drained)) > 0) {
    }
  }
}

void FolderBootstrap::Abort(std::string_view why) {
  aborted_.Set(absl::AbortedError(absl::string_view(why.data(), why.size())));
}

void RankContext::Tell(const std::string& text) const { MT_CHECK(WriteAll(tell_fd, text + "\n").ok()); }

absl::StatusOr<std::unique_ptr<Group>> RankContext::Connect(const std::string& generation,
                                                            const std::vector<int>& hosts,
                                                            size_t slot_bytes) const {
  return ConnectAs(folder, rank, world, generation, hosts, slot_bytes);
}

absl::StatusOr<std::unique_ptr<Group>> ConnectAs(const std::string& folder, int rank, int world,
                                                 const std::string& generation, const std::vector<int>& hosts,
                                                 size_t slot_bytes) {
  FolderBootstrap bootstrap(folder);
  GroupOptions options;
  options.slot_bytes = slot_bytes;
  options.mesh.host_id = absl::StrCat("host", hosts.empty() ? 0 : hosts[static_cast<size_t>(rank)]);
  const GroupMember membership = {
      .rank = rank, .world_size = world, .generation = generation, .address = "127.0.0.1"};
  return Group::Connect(membership, &bootstrap, options);
}

Ranks::Ranks(int world, const RankBody& body) {
  auto folder = MakeTemporaryFolder("mtrun-ranks-");
  MT_CHECK(folder.ok()) << folder.status();
  folder_ = *folder;
  std::cout << std::flush;
  const int parent = getpid();
  for (int rank = 0; rank < world; ++rank) {
    int ends[2];
    MT_CHECK(pipe2(ends, O_CLOEXEC) == 0);
    const int pid = fork();
    MT_CHECK(pid >= 0) << "fork " << errno;
    if (pid == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (getppid() != parent) _exit(3);
      for (Child& other : children_) other.told.Reset();
      close(ends[0]);
      body({.rank = rank, .world = world, .folder = folder_, .tell_fd = ends[1]});
      std::cout << std::flush;
      _exit(::testing::Test::HasFailure() ? 1 : 0);
    }
    close(ends[1]);
    Child child;
    child.pid = pid;
    child.told = UniqueFd(ends[0]);
    children_.push_back(std::move(child));
  }
}

Ranks::~Ranks() {
  for (Child& child : children_) {
    if (child.joined) continue;
    kill(child.pid, SIGKILL);
    waitpid(child.pid, nullptr, 0);
  }
  std::error_code ignored;
  std::filesystem::remove_all(folder_, ignored);
}

void Ranks::Signal(int rank, int signal) const { kill(pid(rank), signal); }

std::string Ranks::Hear(int rank) {
  Child& child = children_[static_cast<size_t>(rank)];
  while (true) {
    if (const size_t end = child.inbox.find('\n'); end != std::string::npos) {
      const std::string line = child.inbox.substr(0, end);
      child.inbox.erase(0, end + 1);
      return line;
    }
    char buffer[1024];
    if (!WaitReadable(child.told.get())) return "";
    const ssize_t count = read(child.told.get(), buffer, sizeof(buffer));
    if (count <= 0) return "";
    child.inbox.append(buffer, static_cast<size_t>(count));
  }
}

int Ranks::Join(int rank) {
  Child& child = children_[static_cast<size_t>(rank)];
  const UniqueFd process(static_cast<int>(syscall(SYS_pidfd_open, child.pid, 0)));
  if (!WaitReadable(process.get())) return -1000;
  int status = 0;
  waitpid(child.pid, &status, 0);
  child.joined = true;
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

void Ranks::ExpectAllWell() {
  for (size_t rank = 0; rank < children_.size(); ++rank) {
    if (children_[rank].joined) continue;
    EXPECT_EQ(Join(static_cast<int>(rank)), 0) << "rank " << rank;
  }
}

void RunProcesses(int world, const RankBody& body) { Ranks(world, body).ExpectAllWell(); }

void RunThreads(int world, const RankBody& body) {
  auto folder = MakeTemporaryFolder("mtrun-ranks-");
  MT_CHECK(folder.ok()) << folder.status();
  std::vector<std::thread> threads;
  for (int rank = 0; rank < world; ++rank) {
    threads.emplace_back([&, rank] { body({.rank = rank, .world = world, .folder = *folder}); });
  }
  for (std::thread& thread : threads) thread.join();
  std::filesystem::remove_all(*folder);
}

absl::Status ReduceOnes(Group& group, size_t count) {
  std::vector<float> data(count, 1.0f);
  return group.AllReduce(data.data(), count, DataType::kFloat32, ReduceOp::kSum)->Wait();
}

uint64_t TestSeed() {
  const char* given = std::getenv("MTRUN_SEED");
  const uint64_t seed = given != nullptr ? std::strtoull(given, nullptr, 0) : RandomBits();
  std::cout << "MTRUN_SEED=" << seed << std::endl;
  return seed;
}

}  // namespace mtrun::collectives
