// The formats that `mtdata import` reads, one row each. To add one, write its files (idx.h is an example) and
// its row in importers.cc.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "datasets/image_source.h"

namespace mtrun::datasets {

struct Importer {
  std::string name;  // --format NAME
  std::string help;  // what such a source holds
  bool (*is_folder)(const std::string& folder);
  bool (*is_archive)(
      const std::vector<std::string>& names);  // of the entries so far; null: reads no archives
  absl::StatusOr<std::unique_ptr<ImageSource>> (*open)(const std::string& source,
                                                       const SourceOptions& options);
};

/// In the order in which a source is tried. The last one takes archives that no other knows: its errors say
/// in detail what does not fit.
const std::vector<Importer>& Importers();
std::vector<std::string> ImporterNames();
/// REQUIRES: one of ImporterNames.
const Importer& ImporterNamed(const std::string& name);

}  // namespace mtrun::datasets
