// Paths of sources, which can lead into an archive: "photos.zip/set/Training".
#pragma once

#include <string>

namespace mtrun::datasets {

struct SourcePath {
  std::string file;    // a folder or a file on the disk
  std::string inside;  // the folder in the archive, "set/Training/"; "" for all of it
};

/// Finds the archive in a path that does not exist as a whole. If there is none, the path is the file.
SourcePath FindSourcePath(const std::string& path);

}  // namespace mtrun::datasets
