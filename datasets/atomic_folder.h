// A folder that appears whole or not at all: filled under a temporary name beside its destination, then
// renamed. Unless published, the destructor removes it. Not thread-safe; files inside may be written from any
// thread.
#pragma once

#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/posix.h"

namespace mtrun::datasets {

class AtomicFolder {
 public:
  /// Makes `.<name>.partial-XXXXXX` beside `destination` (parents are made too). An existing destination is
  /// refused (kAlreadyExists), unless `replace` is given and it holds a packed set and nothing else
  /// (set_files.h), or nothing: what is not ours is never removed.
  static absl::StatusOr<AtomicFolder> Create(const std::string& destination, bool replace);
  /// As Create, but the folder is `.<name>.partial-<key>`, and what an earlier attempt left there is still in
  /// it; the destructor keeps it. A second process with the same key waits until the first one has ended.
  static absl::StatusOr<AtomicFolder> Resume(const std::string& destination, bool replace,
                                             const std::string& key);
  AtomicFolder(AtomicFolder&& other) noexcept;
  AtomicFolder& operator=(AtomicFolder&&) = delete;
  ~AtomicFolder();

  /// Where to write.
  const std::string& path() const { return path_; }
  /// Fsyncs every folder inside (files are their writers' task) and renames it to the destination; a folder
  /// that is replaced is exchanged in one step where the file system can, so that some complete folder is
  /// there at every moment. kAlreadyExists: the destination came to be meanwhile, or what is not ours in it.
  absl::Status Publish();

 private:
  AtomicFolder(std::string destination, std::string path, bool replace, UniqueFd lock = UniqueFd())
      : destination_(std::move(destination)),
        path_(std::move(path)),
        replace_(replace),
        lock_(std::move(lock)) {}
  absl::Status Replace();

  std::string destination_;
  std::string path_;  // "" once published or moved from
  bool replace_;
  UniqueFd lock_;  // of a folder that is kept
};

}  // namespace mtrun::datasets
