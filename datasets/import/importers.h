// The formats that `mtdata import` reads, one row each. To add one, write its files (idx.h is an example) and
// its row in importers.cc.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "datasets/import/image_source.h"

namespace mtrun::datasets {

struct Importer {
  std::string name;  // --format NAME
  std::string help;  // description of the sources
  bool (*is_folder)(const std::string& folder);
  bool (*is_archive)(const std::vector<std::string>& names);  // names so far; null: no archives
  absl::StatusOr<std::unique_ptr<ImageSource>> (*open)(const ImportOptions& options);
};

/// Returns the importers in the order in which they are tried. The last one accepts archives that no other
/// importer knows; its errors say in detail what does not fit.
const std::vector<Importer>& Importers();
std::vector<std::string> ImporterNames();
/// REQUIRES: one of ImporterNames.
const Importer& ImporterNamed(const std::string& name);

}  // namespace mtrun::datasets
