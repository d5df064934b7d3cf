// What an import makes of which sources. A value.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "datasets/files/tree_listing.h"
#include "datasets/import/image_rules.h"

namespace mtrun::datasets {

/// How a packed set stores an image: its pixels, or a JPEG or PNG file. kAuto: pixels if the source has no
/// image files, if the rules give all images one size, or if all have one size of at most 64x64 pixels.
enum class Store { kAuto, kPixels, kEncoded };

struct ImportOptions {
  std::string source;                             // folder, archive, or brace list of archives
  std::string destination = "DEST";               // folder to make
  std::string format = "auto";                    // or one of ImporterNames
  std::string val_source = "", test_source = "";  // sources of these splits, if not in the main one
  std::string val_labels = "";                    // file: the classes of val's images (ground_truth.h)
  std::string class_list = "";                    // file: names of the classes (class_list.h)
  std::vector<std::string> image_fields = {}, class_fields = {};  // of WebDataset samples (ChooseField)
  Store store = Store::kPixels;
  ImageRules rules = {};
  TreeOptions tree = {};  // skip_bad: leave out bad images too
  bool replace = false;   // an existing data set
  int threads = 1;
  int64_t shard_bytes = 64 << 20;
};

}  // namespace mtrun::datasets
