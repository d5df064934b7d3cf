// A folder that appears completely or not at all: filled under a temporary name beside its destination, then
// renamed. Unless published, the destructor removes it. Not thread-safe; any thread may write files inside.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/posix.h"

namespace mtrun::datasets {

class AtomicFolder {
 public:
  /// Creates `.<name>.partial-XXXXXX` beside `destination`, and its parents. Returns kAlreadyExists if the
  /// destination exists, unless `replace` is set and it is empty or contains only a packed set (set_files.h):
  /// foreign files are never removed.
  static absl::StatusOr<AtomicFolder> Create(const std::string& destination, bool replace);
  /// Like Create, but the folder is `.<name>.partial-<key>`. It keeps the files of an earlier attempt, also
  /// after the destructor. A second process with the same key waits until the first one has ended.
  static absl::StatusOr<AtomicFolder> Resume(const std::string& destination, bool replace,
                                             const std::string& key);
  AtomicFolder(AtomicFolder&& other) noexcept;
  AtomicFolder& operator=(AtomicFolder&&) = delete;
  ~AtomicFolder();

  /// The folder to write to.
  const std::string& path() const { return path_; }
  /// kResourceExhausted: the disk has no room for `bytes` bytes of shards and for headers, index and metadata.
  absl::Status CheckRoom(int64_t bytes) const;
  /// Fsyncs every folder inside (the writers sync the files) and renames it to the destination. If the file
  /// system supports it, a replaced folder is exchanged atomically, so that a complete folder exists at every
  /// moment. kAlreadyExists: the destination, or a foreign file in it, was created since Create.
  absl::Status Publish();

 private:
  AtomicFolder(std::string destination, std::string path, bool replace, UniqueFd lock = UniqueFd())
      : destination_(std::move(destination)),
        path_(std::move(path)),
        replace_(replace),
        lock_(std::move(lock)) {}
  absl::Status Replace();

  std::string destination_;
  std::string path_;  // "" after it was published or moved from
  bool replace_;
  UniqueFd lock_;  // held if the folder is kept
};

}  // namespace mtrun::datasets
