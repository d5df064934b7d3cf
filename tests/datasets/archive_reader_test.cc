#include "datasets/files/archive_reader.h"

#include <sys/stat.h>
#include <zlib.h>

#include <clocale>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/datasets/files.h"

namespace mtrun::datasets {
namespace {

using testing::HasSubstr;

/// Returns name and contents of every file, or the first error.
absl::StatusOr<std::vector<std::pair<std::string, std::string>>> ReadAll(const std::string& path,
                                                                         int64_t limit = 1 << 20) {
  auto reader = ArchiveReader::Open(path);
  if (!reader.ok()) return reader.status();
  std::vector<std::pair<std::string, std::string>> files;
  for (;;) {
    const auto more = reader->Next();
    if (!more.ok()) return more.status();
    if (!*more) return files;
    const auto bytes = reader->Read(limit);
    if (!bytes.ok()) return bytes.status();
    files.emplace_back(reader->name(), *bytes);
  }
}

TEST(ArchiveReaderTest, ReadsFilesInOrder) {
  const test::TempFolder folder;
  const std::string large(300000, 'z');
  test::WriteTarGz(folder / "a.tar.gz", {{"./d/", ""}, {"./d/b", large}, {"d/a", ""}});
  const auto files = ReadAll(folder / "a.tar.gz");
  ASSERT_TRUE(files.ok()) << files.status();
  EXPECT_THAT(*files, testing::ElementsAre(testing::Pair("d/b", large), testing::Pair("d/a", "")));
}

TEST(ArchiveReaderTest, EveryTruncationIsDataLossOrNotAnArchive) {
  const test::TempFolder folder;
  std::string noise;
  for (int i = 0; i < 4000; ++i) noise.push_back(static_cast<char>(i * 2654435761u >> 13));
  test::WriteTarGz(folder / "a.tar.gz", {{"a", noise}, {"b", noise}});
  const std::string whole = test::Read(folder / "a.tar.gz");
  for (size_t size = 1; size + 16 < whole.size(); size += 97) {
    test::Write(folder / "cut.tar.gz", whole.substr(0, size));
    const auto files = ReadAll(folder / "cut.tar.gz");
    EXPECT_FALSE(files.ok()) << size << " of " << whole.size();
    EXPECT_THAT(std::string(files.status().message()), HasSubstr("cut.tar.gz"));
  }
}

TEST(ArchiveReaderTest, OtherFilesAreRefused) {
  const test::TempFolder folder;
  ASSERT_EQ(mkfifo((folder / "pipe.tar").c_str(), 0600), 0);  // it has no writer
  EXPECT_THAT(std::string(ReadAll(folder / "pipe.tar").status().message()),
              HasSubstr("is not an ordinary file"));
  test::Write(folder / "a.tar", std::string(5000, 'x'));
  EXPECT_THAT(std::string(ReadAll(folder / "a.tar").status().message()), HasSubstr("a.tar"));
  EXPECT_TRUE(absl::IsNotFound(ReadAll(folder / "none.tar").status()));
}

TEST(ArchiveReaderTest, FileOverTheLimitIsRefused) {
  const test::TempFolder folder;
  test::WriteTarGz(folder / "a.tar.gz", {{"a", std::string(1000, 'x')}});
  EXPECT_TRUE(absl::IsInvalidArgument(ReadAll(folder / "a.tar.gz", 999).status()));
  EXPECT_TRUE(ReadAll(folder / "a.tar.gz", 1000).ok());
}

/// Marks names as UTF-8 as archivers do: bit 11 of each entry's flags.
std::string WithUtf8Names(std::string zip) {
  for (size_t at = 0; (at = zip.find("PK\3\4", at)) != std::string::npos; ++at) zip[at + 7] |= 8;
  for (size_t at = 0; (at = zip.find("PK\1\2", at)) != std::string::npos; ++at) zip[at + 9] |= 8;
  return zip;
}

TEST(ArchiveReaderTest, NamesInUtf8AreReadWhateverTheLocale) {
  const test::TempFolder folder;
  const std::string name = "caf\xc3\xa9/\xe7\x8c\xab.jpg";
  test::WriteArchive(folder / "a.zip", {{name, "x"}});
  test::Write(folder / "a.zip", WithUtf8Names(test::Read(folder / "a.zip")));
  ASSERT_STREQ(setlocale(LC_CTYPE, nullptr), "C") << "a program's, unless it asks for another";
  const auto files = ReadAll(folder / "a.zip");
  ASSERT_TRUE(files.ok()) << files.status();
  EXPECT_THAT(*files, testing::ElementsAre(testing::Pair(name, "x")));
}

/// Makes a zip archive of one stored entry, with the checksum in front, as most programs write it.
std::string ZipOfOne(const std::string& name, const std::string& bytes, uint32_t checksum) {
  const auto number = [](size_t value, int size) {
    std::string text;
    for (; size > 0; --size, value >>= 8) text.push_back(static_cast<char>(value));
    return text;
  };
  const std::string about = number(20, 2) + number(0, 8) + number(checksum, 4) + number(bytes.size(), 4) +
                            number(bytes.size(), 4) + number(name.size(), 2) + number(0, 2);
  return "PK\3\4" + about + name + bytes + "PK\5\6" + number(0, 18);
}

TEST(ArchiveReaderTest, ZipEntryWithAWrongChecksumIsDataLoss) {
  const test::TempFolder folder;
  const std::string bytes(1000, 'y');
  const auto checksum = static_cast<uint32_t>(crc32(0, reinterpret_cast<const Bytef*>(bytes.data()), 1000));
  test::Write(folder / "a.zip", ZipOfOne("d/a.jpg", bytes, checksum));
  const auto whole = ReadAll(folder / "a.zip");
  ASSERT_TRUE(whole.ok()) << whole.status();
  EXPECT_THAT(*whole, testing::ElementsAre(testing::Pair("d/a.jpg", bytes)));
  test::Write(folder / "a.zip", ZipOfOne("d/a.jpg", bytes, checksum ^ 1));
  const auto damaged = ReadAll(folder / "a.zip");
  EXPECT_TRUE(absl::IsDataLoss(damaged.status())) << damaged.status();
  EXPECT_THAT(std::string(damaged.status().message()), HasSubstr("d/a.jpg"));
}

TEST(ArchiveReaderTest, RecognizesArchiveNames) {
  EXPECT_TRUE(HasArchiveName("x/cifar-10-binary.tar.gz"));
  EXPECT_TRUE(HasArchiveName("A.TGZ"));
  EXPECT_TRUE(HasArchiveName("x.zip"));
  EXPECT_FALSE(HasArchiveName("x.rar"));
}

}  // namespace
}  // namespace mtrun::datasets
