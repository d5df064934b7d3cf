// The fetcher of a cache, which delivers the files that a test lets through.
#pragma once

#include <poll.h>

#include <filesystem>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include <gtest/gtest.h>

#include "base/mutex.h"
#include "datasets/cache/cache_layout.h"
#include "datasets/remote/cached_set.h"
#include "datasets/remote/fetcher_door.h"
#include "tests/support/program.h"

namespace mtrun::trainers::testing {

/// A fake fetcher. Thread-safe.
class FakeFetcher {
 public:
  FakeFetcher(std::string cache, std::string set) : cache_(std::move(cache)), set_(std::move(set)) {
    thread_ = std::thread([this] { Run(); });
  }
  ~FakeFetcher() {
    {
      const MutexLock lock(mutex_);
      ends_ = true;
    }
    thread_.join();
  }
  void Let(const std::vector<std::string>& files) {
    const MutexLock lock(mutex_);
    let_.insert(let_.end(), files.begin(), files.end());
  }
  /// Limits the cache to `bytes` from now on: a requested file arrives if there is space for it.
  void Bound(int64_t bytes) {
    const MutexLock lock(mutex_);
    bound_ = bytes;
  }
  /// Answers requests for this file with an error.
  void Refuse(const std::string& file) {
    const MutexLock lock(mutex_);
    refused_ = file;
  }
  std::vector<std::vector<std::string>> wants() const {
    const MutexLock lock(mutex_);
    return wants_;
  }

 private:
  void Run() {
    auto door = datasets::FetcherDoor::Open(cache_);
    ASSERT_TRUE(door.ok()) << door.status();
    while (true) {
      std::vector<pollfd> waits = door->Waits();
      poll(waits.data(), waits.size(), 5);
      for (const auto& news : door->Hear()) Answer(*door, news);
      const MutexLock lock(mutex_);
      if (ends_) return door->Close();
      for (const std::string& file : std::exchange(let_, {})) Bring(*door, file);
      if (bound_ > 0 && !wants_.empty()) BringWhatFits(*door, wants_.back());
    }
  }
  void Answer(datasets::FetcherDoor& door, const datasets::FetcherDoor::News& news) {
    if (!news.message) return;
    client_ = news.client;
    if (std::holds_alternative<datasets::fetch::Open>(*news.message)) {
      auto made = datasets::CachedSet::Make(cache_, support::ReadText(set_ + "/index.json"));
      ASSERT_TRUE(made.ok()) << made.status();
      copy_.emplace(*std::move(made));
      door.Send(client_, datasets::fetch::Opened{copy_->digest()});
    }
    const auto* want = std::get_if<datasets::fetch::Want>(&*news.message);
    if (want == nullptr) return;
    const MutexLock lock(mutex_);
    wants_.push_back(want->files);
    for (const std::string& file : want->files) {
      if (file == refused_) door.Send(client_, datasets::fetch::Failed{file + " is not there"});
      if (copy_->Has(file)) door.Send(client_, datasets::fetch::Here{file});
    }
  }
  void Bring(datasets::FetcherDoor& door, const std::string& file) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    const std::string to = copy_->PathOf(file);
    std::filesystem::create_directories(std::filesystem::path(to).parent_path());
    if (!copy_->Has(file)) std::filesystem::remove(to);
    std::filesystem::copy_file(set_ + "/" + file, to, std::filesystem::copy_options::skip_existing);
    EXPECT_TRUE(datasets::MarkVerified(to, *copy_->Find(file)).ok());
    door.Send(client_, datasets::fetch::Here{file});
  }

  void BringWhatFits(datasets::FetcherDoor& door, const std::vector<std::string>& wanted)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    std::set<std::string> keep;
    for (const std::string& file : wanted) keep.insert(copy_->PathOf(file));
    for (const std::string& file : wanted) {
      if (copy_->Has(file)) continue;
      const absl::Status room =
          datasets::MakeRoom(cache_, copy_->Find(file)->bytes, bound_, /*full=*/false,
                             [&](const std::string& path) { return keep.count(path) == 0; });
      if (room.ok()) Bring(door, file);
    }
  }

  const std::string cache_, set_;
  int64_t client_ = 0;                       // used only by the thread, like the next member
  std::optional<datasets::CachedSet> copy_;  // the part of the set that is in the cache
  mutable Mutex mutex_;
  std::vector<std::string> let_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::vector<std::string>> wants_ ABSL_GUARDED_BY(mutex_);
  std::string refused_ ABSL_GUARDED_BY(mutex_);
  int64_t bound_ ABSL_GUARDED_BY(mutex_) = 0;
  bool ends_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace mtrun::trainers::testing
