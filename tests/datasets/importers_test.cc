#include "datasets/import/importers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace mtrun::datasets {
namespace {

using ::testing::UnorderedElementsAre;

TEST(Importers, EachHasEveryFunction) {
  EXPECT_THAT(ImporterNames(), UnorderedElementsAre("cifar", "folder", "idx", "imagenet", "webdataset"));
  for (const Importer& importer : Importers()) {
    SCOPED_TRACE(importer.name);
    EXPECT_EQ(&ImporterNamed(importer.name), &importer);
    EXPECT_FALSE(importer.help.empty());
    EXPECT_FALSE(importer.is_folder("/no/such/folder"));
    EXPECT_FALSE(importer.open({.source = "/no/such/folder"}).ok());
  }
}

TEST(Importers, ArchiveIsRecognizedByItsNames) {
  const auto known_by = [](const std::vector<std::string>& names) {
    std::vector<std::string> importers;
    for (const Importer& importer : Importers()) {
      if (importer.is_archive != nullptr && importer.is_archive(names)) importers.push_back(importer.name);
    }
    return importers;
  };
  EXPECT_THAT(known_by({"cifar-10-batches-bin/data_batch_1.bin"}), UnorderedElementsAre("cifar"));
  EXPECT_THAT(known_by({"n01440764.tar"}), UnorderedElementsAre("imagenet"));
  EXPECT_THAT(known_by({"0001.jpg", "0001.cls"}), UnorderedElementsAre("webdataset"));
  EXPECT_THAT(known_by({"0001.jpg", "0002.cls"}), UnorderedElementsAre());
  EXPECT_THAT(known_by({"photos/train/cat/1.png"}), UnorderedElementsAre("folder"));
  EXPECT_THAT(known_by({"readme.txt"}), UnorderedElementsAre());
}

TEST(Importers, LastImporterTakesOtherArchives) { EXPECT_NE(Importers().back().is_archive, nullptr); }

}  // namespace
}  // namespace mtrun::datasets
