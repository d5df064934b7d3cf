#include "tests/datasets/source_forms.h"

#include <algorithm>
#include <filesystem>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "tests/datasets/files.h"

namespace mtrun::datasets::test {

namespace fs = std::filesystem;

SourceForms::SourceForms(std::vector<Photo> photos, std::vector<std::string> classes, bool from_mac)
    : photos_(std::move(photos)), classes_(std::move(classes)), sorted_(classes_), from_mac_(from_mac) {
  std::sort(sorted_.begin(), sorted_.end());
}

/// Puts the attributes of each file before it, as macOS's tar does, and into a folder, as its zip does.
Entries SourceForms::AsWritten(Entries entries) const {
  if (!from_mac_) return entries;
  const std::string attributes("\0\5\026\7\0\2\0\0Mac OS X        ", 24);
  Entries all{{"._.", attributes}, {".DS_Store", "Bud1"}};
  for (auto& [name, bytes] : entries) {
    const fs::path path(name);
    const std::string hidden = (path.parent_path() / ("._" + path.filename().string())).string();
    all.emplace_back(hidden, attributes);
    all.emplace_back("__MACOSX/" + hidden, attributes);
    all.emplace_back(name, std::move(bytes));
  }
  return all;
}

Entries SourceForms::Tree(const std::string& prefix) const {
  Entries entries;
  for (const Photo& photo : photos_)
    entries.emplace_back(absl::StrCat(prefix, photo.split, "/", classes_[photo.label], "/", photo.name),
                         photo.bytes);
  return entries;
}

Entries SourceForms::Of(const std::string& split) const {
  Entries entries;
  for (const Photo& photo : photos_) {
    if (photo.split == split) entries.emplace_back(photo.name, photo.bytes);
  }
  return entries;
}

void SourceForms::WriteFolder(const std::string& folder) const {
  for (const auto& [name, bytes] : AsWritten(Tree(""))) Write(absl::StrCat(folder, "/", name), bytes);
}

void SourceForms::WriteImageNet(const std::string& folder) const {
  fs::create_directories(folder + "/ILSVRC2012_devkit_t12/data");
  Entries classes;
  for (size_t label = 0; label < classes_.size(); ++label) {
    Entries images;
    for (const Photo& photo : photos_) {
      if (photo.split == "train" && photo.label == label) images.emplace_back(photo.name, photo.bytes);
    }
    WriteArchive(folder + "/one.tar", AsWritten(images));
    classes.emplace_back(classes_[label] + ".tar", Read(folder + "/one.tar"));
  }
  fs::remove(folder + "/one.tar");
  WriteArchive(folder + "/ILSVRC2012_img_train.tar", AsWritten(classes));
  WriteArchive(folder + "/ILSVRC2012_img_val.tar", AsWritten(Of("val")));
  std::vector<std::pair<std::string, size_t>> named;  // the ground truth is in the order of the names
  for (const Photo& photo : photos_) {
    if (photo.split == "val") named.emplace_back(photo.name, photo.label);
  }
  std::sort(named.begin(), named.end());
  std::string truth, meta;
  for (const auto& [name, label] : named) absl::StrAppend(&truth, label + 1, "\n");
  for (size_t i = 0; i < classes_.size(); ++i) absl::StrAppend(&meta, i + 1, " ", classes_[i], " words\n");
  Write(folder + "/ILSVRC2012_devkit_t12/data/ILSVRC2012_validation_ground_truth.txt", truth);
  Write(folder + "/meta.txt", meta);
}

void SourceForms::WriteWebDataset(const std::string& folder) const {
  fs::create_directories(folder);
  Entries train[2], val;
  size_t number = 0;
  for (const Photo& photo : photos_) {
    Entries& shard = photo.split == "val" ? val : train[++number % 2];
    const size_t label = std::find(sorted_.begin(), sorted_.end(), classes_[photo.label]) - sorted_.begin();
    const std::string key = photo.name.substr(0, photo.name.size() - 4);
    if (&shard == &train[0]) shard.emplace_back(key + ".cls", absl::StrCat(label, "\n"));
    shard.emplace_back(photo.name, photo.bytes);
    if (&shard != &train[0]) shard.emplace_back(key + ".json", absl::StrCat("{\"label\": ", label, "}"));
    shard.emplace_back(key + ".txt", "a caption");
  }
  WriteArchive(folder + "/train-000000.tar", AsWritten(train[0]));
  WriteArchive(folder + "/train-000001.tar", AsWritten(train[1]));
  WriteArchive(folder + "/val-000000.tar", AsWritten(val));
  Write(folder + "/classes.txt", absl::StrJoin(sorted_, "\n"));
}

std::vector<std::pair<std::string, ImportOptions>> SourceForms::WriteAll(const std::string& folder) const {
  WriteFolder(folder + "/tree");
  WriteImageNet(folder + "/imagenet");
  WriteWebDataset(folder + "/wds");
  for (const char* name : {"/a.tar", "/a.tar.gz", "/a.zip"})
    WriteArchive(folder + name, AsWritten(Tree("set/")));
  const std::string wds = folder + "/wds/", imagenet = folder + "/imagenet/", list = wds + "classes.txt";
  return {{"folder", {.source = folder + "/tree"}},
          {"folder", {.source = folder + "/a.tar"}},
          {"folder", {.source = folder + "/a.tar.gz"}},
          {"folder", {.source = folder + "/a.zip"}},
          {"imagenet", {.source = imagenet}},
          {"imagenet",
           {.source = imagenet + "ILSVRC2012_img_train.tar",
            .val_source = imagenet + "ILSVRC2012_img_val.tar",
            .val_labels = imagenet + "ILSVRC2012_devkit_t12/data/ILSVRC2012_validation_ground_truth.txt",
            .class_list = imagenet + "meta.txt"}},
          {"webdataset", {.source = wds, .class_list = list}},
          {"webdataset",
           {.source = wds + "train-{000000..000001}.tar",
            .val_source = wds + "val-000000.tar",
            .class_list = list}}};
}

}  // namespace mtrun::datasets::test
