#include "datasets/files/archive_reader.h"

#include <sys/stat.h>
#include <zlib.h>

#include <clocale>
#include <tuple>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/datasets/files.h"
#include "tests/support/status.h"

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

/// Makes a zip archive of one deflated entry as a program that writes to a pipe does: the sizes follow the
/// data.
std::string StreamedZipOfOne(const std::string& name, const std::string& bytes) {
  std::string deflated(bytes.size() + 100, '\0');
  z_stream stream = {};
  EXPECT_EQ(deflateInit2(&stream, Z_BEST_COMPRESSION, Z_DEFLATED, -MAX_WBITS, 8, Z_DEFAULT_STRATEGY), Z_OK);
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  stream.avail_in = static_cast<uInt>(bytes.size());
  stream.next_out = reinterpret_cast<Bytef*>(deflated.data());
  stream.avail_out = static_cast<uInt>(deflated.size());
  EXPECT_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END);
  deflated.resize(stream.total_out);
  deflateEnd(&stream);
  const auto number = [](size_t value, int size) {
    std::string text;
    for (; size > 0; --size, value >>= 8) text.push_back(static_cast<char>(value));
    return text;
  };
  const size_t checksum =
      crc32(0, reinterpret_cast<const Bytef*>(bytes.data()), static_cast<uInt>(bytes.size()));
  const std::string sizes = number(checksum, 4) + number(deflated.size(), 4) + number(bytes.size(), 4);
  return "PK\3\4" + number(20, 2) + number(8, 2) + number(8, 2) + number(0, 4) + number(0, 12) +
         number(name.size(), 2) + number(0, 2) + name + deflated + "PK\7\10" + sizes + "PK\5\6" +
         number(0, 18);
}

/// Its header says no size: only the limit of the reader can refuse it.
TEST(ArchiveReaderTest, EntryWithoutASizeIsReadUpToTheLimit) {
  const test::TempFolder folder;
  const std::string bytes(1'000'000, '\0');
  test::Write(folder / "bomb.zip", StreamedZipOfOne("a", bytes));
  ASSERT_LT(test::Read(folder / "bomb.zip").size(), 2000u);
  auto reader = ArchiveReader::Open(folder / "bomb.zip");
  ASSERT_TRUE(reader.ok()) << reader.status();
  ASSERT_TRUE(*reader->Next());
  EXPECT_EQ(reader->bytes(), -1);
  EXPECT_THAT(reader->Read(999'999), support::StatusIs(absl::StatusCode::kInvalidArgument,
                                                       HasSubstr("a is larger than 999999 bytes")));
  const auto whole = ReadAll(folder / "bomb.zip", 1'000'000);
  ASSERT_TRUE(whole.ok()) << whole.status();
  EXPECT_THAT(*whole, testing::ElementsAre(testing::Pair("a", bytes)));
}

/// Returns one header of a tar archive, of an entry without contents.
std::string TarHeader(const std::string& name, char type, const std::string& target) {
  std::string header = name;
  header.resize(100, '\0');
  header += std::string(
      "0000644\0"
      "0000000\0"
      "0000000\0"
      "00000000000\0"
      "00000000000\0",
      48);
  const size_t sum_at = header.size();
  header += std::string(8, ' ') + type + target;
  header.resize(257, '\0');
  header += std::string(
      "ustar\0"
      "00",
      8);
  header.resize(512, '\0');
  unsigned sum = 0;
  for (const char c : header) sum += static_cast<unsigned char>(c);
  for (int digit = 5; digit >= 0; --digit, sum >>= 3)
    header[sum_at + static_cast<size_t>(digit)] = static_cast<char>('0' + (sum & 7));
  header[sum_at + 6] = '\0';
  return header;
}

TEST(ArchiveReaderTest, HardLinkIsNotAFile) {
  const test::TempFolder folder;
  test::Write(folder / "a.tar", TarHeader("./d/file", '0', "") + TarHeader("d/link", '1', "./d/file") +
                                    TarHeader("d/symbolic", '2', "file") + std::string(1024, '\0'));
  auto reader = ArchiveReader::Open(folder / "a.tar");
  ASSERT_TRUE(reader.ok()) << reader.status();
  std::vector<std::tuple<std::string, bool, std::string>> entries;
  for (auto more = reader->Next(); !more.ok() || *more; more = reader->Next()) {
    ASSERT_TRUE(more.ok()) << more.status();
    entries.emplace_back(reader->name(), reader->is_file(), reader->hard_link());
  }
  EXPECT_THAT(entries, testing::ElementsAre(testing::FieldsAre("d/file", true, ""),
                                            testing::FieldsAre("d/link", false, "d/file"),
                                            testing::FieldsAre("d/symbolic", false, "")));
}

TEST(ArchiveReaderTest, RecognizesArchiveNames) {
  EXPECT_TRUE(HasArchiveName("x/cifar-10-binary.tar.gz"));
  EXPECT_TRUE(HasArchiveName("A.TGZ"));
  EXPECT_TRUE(HasArchiveName("x.zip"));
  EXPECT_FALSE(HasArchiveName("x.rar"));
}

}  // namespace
}  // namespace mtrun::datasets
