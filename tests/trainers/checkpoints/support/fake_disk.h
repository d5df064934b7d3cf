// An in-memory file system that distinguishes what is on the disk from what only the kernel holds. Tests use
// it to stop the machine, or to fail, at every single operation.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "trainers/checkpoints/files.h"

namespace mtrun::checkpoints {

/// A fake disk; copying it clones the disk.
class FakeDisk : public Files {
 public:
  enum class Fault {
    kNone,
    kStop,        // the machine stops before the operation: it and all later ones fail
    kError,       // only this operation fails, as with EIO or ENOSPC
    kShortWrite,  // a write takes one byte only (only writes count as operations; others are not affected)
  };
  /// What a stopped machine finds on its disk, from the strictest reading of POSIX to the most lenient.
  enum class Survives { kSyncedOnly, kNamesButNoUnsyncedBytes, kNamesAndHalfOfTheBytes, kEverything };

  FakeDisk();
  FakeDisk(const FakeDisk& other);

  /// Injects `fault` into the operation with this number, counted from 0 from now on.
  void Plan(Fault fault, int operation);
  int operations() const { return operations_; }
  bool fired() const { return fired_; }
  FakeDisk AfterStop(Survives survives) const;
  /// Returns the bytes of a file, to damage them in place.
  std::string* Bytes(const std::string& path);

  absl::Status MakeFolder(const std::string& path) override;
  absl::StatusOr<std::unique_ptr<NewFile>> Create(const std::string& path) override;
  absl::Status SyncFolder(const std::string& path) override;
  absl::Status Rename(const std::string& from, const std::string& to) override;
  absl::Status Exchange(const std::string& one, const std::string& other) override;
  absl::Status Remove(const std::string& path) override;
  absl::StatusOr<std::string> Read(const std::string& path) override;
  absl::StatusOr<std::vector<std::string>> List(const std::string& folder) override;
  bool Exists(const std::string& path) override;
  absl::StatusOr<int64_t> FreeBytes(const std::string& folder) override;

  int64_t free_bytes = int64_t{1} << 40;
  bool exchanges = true;  // can exchange names, as local file systems can and NFS cannot
  std::map<std::string, absl::Status> refused;  // errors of reading a path

 private:
  struct Node {
    bool folder = false;
    std::string bytes, synced;                               // of a file
    std::map<std::string, std::shared_ptr<Node>> now, disk;  // of a folder
  };
  class File;
  static std::shared_ptr<Node> Clone(const Node& node);
  static std::shared_ptr<Node> Survivor(const Node& node, Survives survives);
  std::shared_ptr<Node> Find(const std::string& path) const;
  std::shared_ptr<Node> ParentOf(const std::string& path) const;
  /// Counts an operation and returns its result.
  absl::Status Begin(const char* what);

  std::shared_ptr<Node> root_;
  Fault fault_ = Fault::kNone;
  int fault_at_ = 0, operations_ = 0;
  bool fired_ = false, stopped_ = false;
};

}  // namespace mtrun::checkpoints
