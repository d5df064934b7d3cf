// The same images in every form of source: folders, ImageNet's tar of tars, WebDataset, archives.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "datasets/import/import.h"

namespace mtrun::datasets::test {

struct Photo {
  std::string split, name, bytes;  // "train" or "val"; "n00000003_0.jpg"
  size_t label = 0;                // index of the class
};

using Entries = std::vector<std::pair<std::string, std::string>>;

class SourceForms {
 public:
  /// `from_mac`: every folder and archive also has the hidden files that macOS adds. `classes`: WNIDs in the
  /// order of their ILSVRC2012_IDs. Training images are named <class>_<...>, those of
  /// val arbitrarily; file extensions have four characters.
  SourceForms(std::vector<Photo> photos, std::vector<std::string> classes, bool from_mac = false);

  const std::vector<Photo>& photos() const { return photos_; }
  const std::vector<std::string>& sorted_classes() const { return sorted_; }
  /// Returns "<prefix><split>/<class>/<name>" for all.
  Entries Tree(const std::string& prefix) const;
  /// Returns names without folders.
  Entries Of(const std::string& split) const;
  void WriteFolder(const std::string& folder) const;
  /// In the distributed layout, with ground truth and list of classes.
  void WriteImageNet(const std::string& folder) const;
  /// Two archives of train and one of val; .cls in the first, .json in the others; classes.txt beside them.
  void WriteWebDataset(const std::string& folder) const;
  /// Writes all forms below `folder`; returns the expected format and the options of each.
  std::vector<std::pair<std::string, ImportOptions>> WriteAll(const std::string& folder) const;

 private:
  Entries AsWritten(Entries entries) const;

  std::vector<Photo> photos_;
  std::vector<std::string> classes_, sorted_;
  bool from_mac_;
};

}  // namespace mtrun::datasets::test
