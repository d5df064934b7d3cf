// File operations for checkpoints, so that a test can make each of them fail, or stop the machine after each
// of them. Implementations are used by one thread at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace mtrun::checkpoints {

/// A file that is being written. The destructor closes it.
class NewFile {
 public:
  virtual ~NewFile() = default;
  /// Appends bytes and returns how many were taken: possibly fewer than given, but not 0 if the span is not
  /// empty.
  virtual absl::StatusOr<size_t> Write(absl::Span<const uint8_t> bytes) = 0;
  /// Flushes the written bytes to the disk.
  virtual absl::Status Sync() = 0;
};

/// File operations. Errors name the path. A missing file or folder is kNotFound.
class Files {
 public:
  virtual ~Files() = default;

  /// Makes a folder and its parents. OK if it exists.
  virtual absl::Status MakeFolder(const std::string& path) = 0;
  /// Makes a file that must not exist yet.
  virtual absl::StatusOr<std::unique_ptr<NewFile>> Create(const std::string& path) = 0;
  /// Flushes a folder's entries.
  virtual absl::Status SyncFolder(const std::string& path) = 0;
  /// Returns kAlreadyExists if `to` exists: nothing is ever replaced.
  virtual absl::Status Rename(const std::string& from, const std::string& to) = 0;
  /// Exchanges two names atomically. Returns kUnimplemented if the file system cannot.
  virtual absl::Status Exchange(const std::string& one, const std::string& other) = 0;
  /// Removes a file or a whole folder. OK if it does not exist.
  virtual absl::Status Remove(const std::string& path) = 0;

  virtual absl::StatusOr<std::string> Read(const std::string& path) = 0;
  /// Returns the names in a folder, sorted, or none if it does not exist.
  virtual absl::StatusOr<std::vector<std::string>> List(const std::string& folder) = 0;
  virtual bool Exists(const std::string& path) = 0;
  /// Returns the bytes that this user can still write to the disk of `folder`.
  virtual absl::StatusOr<int64_t> FreeBytes(const std::string& folder) = 0;
};

/// Returns the operating system's files.
Files& RealFiles();

/// Creates, writes and syncs a file.
absl::Status WriteWhole(Files& files, const std::string& path,
                        const std::vector<absl::Span<const uint8_t>>& pieces);
absl::Span<const uint8_t> BytesOf(const std::string& text);

}  // namespace mtrun::checkpoints
