// Real images through every kind of source, in ImageNet's layout: photographs of varied size, and 60,000
// small ones. tools/test --full.
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <map>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "datasets/files/archive_reader.h"
#include "datasets/images/jpeg.h"
#include "datasets/import/import.h"
#include "datasets/packed/packed.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/datasets/files.h"
#include "tests/datasets/photographs.h"
#include "tests/datasets/source_forms.h"

namespace mtrun::datasets {
namespace {

namespace fs = std::filesystem;
using test::Photo;
using test::SourceForms;

constexpr char kFashion[] = "/usr/share/datasets/fashion-mnist";
constexpr int64_t kMaxBytes = 1 << 20;  // per image here

/// Returns WNIDs whose order differs from that of the labels.
std::vector<std::string> Wnids(size_t classes) {
  std::vector<std::string> wnids;
  for (size_t i = 0; i < classes; ++i) wnids.push_back(absl::StrFormat("n%08d", 7 * i % classes + 1));
  return wnids;
}

/// Names an image as ImageNet does.
std::string NameOf(const std::string& split, const std::string& wnid, size_t number,
                   const std::string& extension) {
  return split == "val" ? absl::StrFormat("ILSVRC2012_val_%08d%s", number, extension)
                        : absl::StrCat(wnid, "_", number, extension);
}

class RealImagesTest : public testing::Test {
 protected:
  /// Imports every form and expects the same set from each, with all images in their classes.
  void ExpectOneSetOfEveryForm(const SourceForms& forms, const std::vector<ImageRules>& rules) {
    const auto sources = forms.WriteAll(folder_.path());
    for (const ImageRules& rule : rules) {
      std::string digest;
      for (const auto& [format, options] : sources) {
        SCOPED_TRACE(absl::StrCat(options.source, " ", rule.Describe()));
        const std::string found = Digest(format, options, rule, forms);
        if (digest.empty()) digest = found;
        ASSERT_EQ(found, digest);
        if (HasFatalFailure()) return;
      }
      if (rule.short_side == 0) ExpectAllAsTheyWere(forms);
    }
  }

 private:
  std::string Digest(const std::string& format, ImportOptions options, const ImageRules& rules,
                     const SourceForms& forms) {
    fs::remove_all(packed_);
    options.destination = packed_;
    options.store = Store::kEncoded;
    options.rules = rules;
    options.threads = 2;
    const auto report = Import(options, test::kGoOn);
    EXPECT_TRUE(report.ok()) << report.status();
    if (!report.ok()) return "";
    EXPECT_EQ(report->format, format);
    EXPECT_EQ(report->index.classes, forms.sorted_classes());
    EXPECT_TRUE(report->left_out.empty());
    for (const std::string split : {"train", "val"})
      EXPECT_EQ(report->index.splits.at(split).class_counts, CountsOf(split, forms)) << split;
    return IndexDigest(report->index);
  }
  static std::vector<int64_t> CountsOf(const std::string& split, const SourceForms& forms) {
    std::map<std::string, int64_t> counts;
    for (const auto& [name, bytes] : forms.Tree("")) {
      if (name.rfind(split + "/", 0) == 0) ++counts[name.substr(0, name.rfind('/'))];
    }
    std::vector<int64_t> sorted;
    for (const auto& [name, count] : counts) sorted.push_back(count);
    return sorted;
  }
  /// Expects every image in its position, in the order of class and name, with its original bytes.
  void ExpectAllAsTheyWere(const SourceForms& forms) {
    for (const std::string split : {"train", "val"}) {
      const auto set = PackedSplit::Open(packed_, split, /*verify=*/true);
      ASSERT_TRUE(set.ok()) << set.status();
      test::Entries expected;
      for (auto& [name, bytes] : forms.Tree("")) {
        if (name.rfind(split + "/", 0) == 0) expected.emplace_back(name, std::move(bytes));
      }
      std::sort(expected.begin(), expected.end());
      ASSERT_EQ(set->size(), static_cast<int64_t>(expected.size()));
      for (int64_t i = 0; i < set->size(); ++i) {
        const auto& [name, bytes] = expected[static_cast<size_t>(i)];
        const std::string wnid = set->class_names()[static_cast<size_t>(set->label(i))];
        ASSERT_EQ(name.rfind(absl::StrCat(split, "/", wnid, "/"), 0), 0u) << i << " is " << name;
        ASSERT_EQ(set->record(i), bytes) << name;
      }
    }
  }

 protected:
  const test::TempFolder folder_;
  const std::string packed_ = folder_ / "packed";
};

TEST_F(RealImagesTest, PhotographsOfAllSizesThroughEveryKindOfSource) {
  if (test::PhotographFiles().empty()) GTEST_SKIP() << "no photographs here: tools/setup --test-tools";
  constexpr size_t kPhotographs = 12;
  constexpr int kEach = 36, kShortest = 40, kLongest = 500;
  const std::vector<std::string> wnids = Wnids(kPhotographs);
  std::vector<Photo> photos;
  std::map<std::string, int> kinds, sizes;
  for (const test::PhotographPart& part : test::CutPhotographs(kPhotographs, kEach, kShortest, kLongest)) {
    const std::string split = photos.size() % 6 == 0 ? "val" : "train";
    const std::string& wnid = wnids[part.photograph];
    photos.push_back(
        {split, NameOf(split, wnid, photos.size(), part.extension), part.bytes, part.photograph});
    ++kinds[part.extension];
    ++sizes[SizeText(part.size)];
  }
  EXPECT_EQ(photos.size(), 432u);
  EXPECT_GE(kinds[".png"], 80);
  EXPECT_GE(sizes.size(), 400u) << "of all sizes";
  ExpectOneSetOfEveryForm(SourceForms(std::move(photos), wnids), {{}, {.short_side = 96}});
}

/// CIFAR-10 as JPEG files <train|test>/<class>/<name>.jpg; its test split becomes val here.
TEST_F(RealImagesTest, CifarThroughEveryKindOfSource) {
  const char* archive = std::getenv("MT_CIFAR10_IMAGES");
  if (archive == nullptr)
    GTEST_SKIP() << "no CIFAR-10 here: MT_CIFAR10_IMAGES names an archive of its images";
  auto reader = ArchiveReader::Open(archive);
  ASSERT_TRUE(reader.ok()) << reader.status();
  const std::vector<std::string> wnids = Wnids(10);
  std::map<std::string, size_t> labels;
  std::vector<Photo> photos;
  std::map<std::string, int64_t> counts;
  for (auto more = reader->Next(); more.value_or(false); more = reader->Next()) {
    const fs::path path(reader->name());
    if (path.extension() != ".jpg") continue;
    const size_t label = labels.emplace(path.parent_path().filename().string(), labels.size()).first->second;
    ASSERT_LT(label, wnids.size()) << path;
    const std::string split = path.begin()->string() == "test" ? "val" : "train";
    auto bytes = reader->Read(kMaxBytes);
    ASSERT_TRUE(bytes.ok()) << bytes.status();
    photos.push_back({split, NameOf(split, wnids[label], photos.size(), ".jpg"), *std::move(bytes), label});
    ++counts[split];
  }
  EXPECT_EQ(counts, (std::map<std::string, int64_t>{{"train", 50000}, {"val", 10000}}));
  ExpectOneSetOfEveryForm(SourceForms(std::move(photos), wnids), {ImageRules()});
}

/// Debian's Fashion-MNIST, with each image as a separate JPEG.
TEST_F(RealImagesTest, FashionMnistThroughEveryKindOfSource) {
  if (!fs::exists(kFashion)) GTEST_SKIP() << "no Fashion-MNIST here";
  const auto report =
      Import({.source = kFashion, .destination = folder_ / "pixels", .threads = 2}, test::kGoOn);
  ASSERT_TRUE(report.ok()) << report.status();
  const std::vector<std::string> wnids = Wnids(10);
  std::vector<Photo> photos;
  for (const std::string of : {"train", "test"}) {
    const auto set = PackedSplit::Open(folder_ / "pixels", of);
    ASSERT_TRUE(set.ok()) << set.status();
    const std::string split = of == "test" ? "val" : "train";
    for (int64_t i = 0; i < (of == "train" ? 50000 : 10000); ++i) {
      const auto pixels = set->image(i);
      const auto label = static_cast<size_t>(set->label(i));
      photos.push_back({split, NameOf(split, wnids[label], photos.size(), ".jpg"),
                        EncodeJpeg({set->image_size(i), {pixels.begin(), pixels.end()}}, 90), label});
    }
  }
  ExpectOneSetOfEveryForm(SourceForms(std::move(photos), wnids), {ImageRules()});
}

}  // namespace
}  // namespace mtrun::datasets
