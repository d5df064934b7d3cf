// The file operations that a checkpoint is made of, so that a test can let each of them fail, or let the
// machine stop after each of them. Implementations are used by one thread at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace mtrun::checkpoints {

/// A file that is being written; closed by its destructor.
class NewFile {
 public:
  virtual ~NewFile() = default;
  /// Appends; returns how many bytes were taken, which may be fewer than given but never 0 of a non-empty
  /// span.
  virtual absl::StatusOr<size_t> Write(absl::Span<const uint8_t> bytes) = 0;
  /// What was written is on the disk when this returns OK.
  virtual absl::Status Sync() = 0;
};

/// Errors name the path. A missing file or folder is kNotFound.
class Files {
 public:
  virtual ~Files() = default;

  /// With its parents; fine when it is there.
  virtual absl::Status MakeFolder(const std::string& path) = 0;
  /// Makes a file that must not exist yet.
  virtual absl::StatusOr<std::unique_ptr<NewFile>> Create(const std::string& path) = 0;
  /// Flushes a folder's entries.
  virtual absl::Status SyncFolder(const std::string& path) = 0;
  /// kAlreadyExists when `to` exists: nothing is ever replaced.
  virtual absl::Status Rename(const std::string& from, const std::string& to) = 0;
  /// Gives each of two the other's name, at once. kUnimplemented where the file system cannot.
  virtual absl::Status Exchange(const std::string& one, const std::string& other) = 0;
  /// A file or a whole folder; fine when it is not there.
  virtual absl::Status Remove(const std::string& path) = 0;

  virtual absl::StatusOr<std::string> Read(const std::string& path) = 0;
  /// Names in a folder, sorted; none when it is not there.
  virtual absl::StatusOr<std::vector<std::string>> List(const std::string& folder) = 0;
  virtual bool Exists(const std::string& path) = 0;
  /// Bytes that this user may still write where `folder` lies.
  virtual absl::StatusOr<int64_t> FreeBytes(const std::string& folder) = 0;
};

/// The operating system's.
Files& RealFiles();

/// Creates, writes and syncs a file.
absl::Status WriteWhole(Files& files, const std::string& path,
                        const std::vector<absl::Span<const uint8_t>>& pieces);
absl::Span<const uint8_t> BytesOf(const std::string& text);

}  // namespace mtrun::checkpoints
