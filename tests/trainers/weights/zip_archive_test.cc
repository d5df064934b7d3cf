#include "trainers/weights/zip_archive.h"

#include <cstring>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zlib.h>

namespace mtrun::trainers {
namespace {

using ::testing::HasSubstr;

template <typename T>
void Append(std::string& out, T value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof(value));
}

struct Options {
  uint16_t method = 0, flags = 0;
  int copies = 1;
  bool zip64 = false;
};

/// Returns a zip file with one entry (or the same one several times), byte by byte.
std::string MakeZip(const std::string& name, const std::string& data, const Options& options = {}) {
  const uint32_t crc = crc32_z(0, reinterpret_cast<const Bytef*>(data.data()), data.size());
  std::string out;
  const auto fixed = [&](std::string& to, uint32_t size) {
    Append<uint16_t>(to, options.flags);
    Append<uint16_t>(to, options.method);
    Append<uint32_t>(to, 0);  // time
    Append<uint32_t>(to, crc);
    Append<uint32_t>(to, size);
    Append<uint32_t>(to, size);
    Append<uint16_t>(to, static_cast<uint16_t>(name.size()));
  };
  Append<uint32_t>(out, 0x04034b50);
  Append<uint16_t>(out, 20);
  fixed(out, static_cast<uint32_t>(data.size()));
  Append<uint16_t>(out, 3);  // padding, because torch aligns its data
  out += name + "pad" + data;
  const uint64_t directory = out.size();
  for (int i = 0; i < options.copies; ++i) {
    Append<uint32_t>(out, 0x02014b50);
    Append<uint32_t>(out, 0);  // versions
    fixed(out, options.zip64 ? 0xFFFFFFFF : static_cast<uint32_t>(data.size()));
    Append<uint16_t>(out, options.zip64 ? 28 : 0);
    out.append(10, 0);
    Append<uint32_t>(out, options.zip64 ? 0xFFFFFFFF : 0);
    out += name;
    if (!options.zip64) continue;
    Append<uint16_t>(out, 1);
    Append<uint16_t>(out, 24);
    Append<uint64_t>(out, data.size());
    Append<uint64_t>(out, data.size());
    Append<uint64_t>(out, 0);
  }
  const uint64_t end = out.size();
  if (options.zip64) {
    Append<uint32_t>(out, 0x06064b50);
    out.append(20, 0);
    Append<uint64_t>(out, 1);
    Append<uint64_t>(out, 1);
    Append<uint64_t>(out, end - directory);
    Append<uint64_t>(out, directory);
    Append<uint32_t>(out, 0x07064b50);
    Append<uint32_t>(out, 0);
    Append<uint64_t>(out, end);
    Append<uint32_t>(out, 1);
  }
  Append<uint32_t>(out, 0x06054b50);
  out.append(4, 0);
  Append<uint16_t>(out, options.zip64 ? 0xFFFF : static_cast<uint16_t>(options.copies));
  Append<uint16_t>(out, options.zip64 ? 0xFFFF : static_cast<uint16_t>(options.copies));
  Append<uint32_t>(out, static_cast<uint32_t>(end - directory));
  Append<uint32_t>(out, options.zip64 ? 0xFFFFFFFF : static_cast<uint32_t>(directory));
  Append<uint16_t>(out, 0);
  return out;
}

TEST(zip_archive, ReadsStoredEntries) {
  for (const bool zip64 : {false, true}) {
    Options options;
    options.zip64 = zip64;
    const std::string file = MakeZip("a/data.pkl", "hello", options);
    const auto archive = ZipArchive::Open(file);
    ASSERT_TRUE(archive.ok()) << archive.status();
    EXPECT_EQ(archive->entries().size(), 1u);
    const auto data = archive->Read("a/data.pkl");
    ASSERT_TRUE(data.ok()) << data.status();
    EXPECT_EQ(*data, "hello");
    EXPECT_EQ(archive->Read("b").status().code(), absl::StatusCode::kNotFound);
  }
}

TEST(zip_archive, RefusesUnsupportedEntries) {
  Options deflated, encrypted, twice;
  deflated.method = 8;
  encrypted.flags = 1;
  twice.copies = 2;
  const std::string a = MakeZip("x", "data", deflated), b = MakeZip("x", "data", encrypted),
                    c = MakeZip("x", "data", twice);
  EXPECT_EQ(ZipArchive::Open(a)->Read("x").status().code(), absl::StatusCode::kUnimplemented);
  EXPECT_EQ(ZipArchive::Open(b)->Read("x").status().code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(std::string(ZipArchive::Open(c).status().message()), HasSubstr("two entries named x"));
}

TEST(zip_archive, VerifiesAnEntryOnce) {
  const std::string file = MakeZip("x", "data");
  const auto archive = ZipArchive::Open(file);
  ASSERT_TRUE(archive.ok()) << archive.status();
  for (int i = 0; i < 100; ++i) EXPECT_EQ(*archive->Read("x"), "data");
  EXPECT_EQ(archive->verifications(), 1);
}

/// Many names for one large part of a file would each cause a verification.
TEST(zip_archive, EntriesThatOverlapAreRefused) {
  std::string file = MakeZip("x", std::string(1000, 'd'), {.copies = 2});
  file[file.rfind("PK\1\2") + 46] = 'y';  // the name in the directory
  EXPECT_THAT(std::string(ZipArchive::Open(file).status().message()), HasSubstr("its entries overlap"));
}

TEST(zip_archive, DetectsDamage) {
  const std::string good = MakeZip("x", "data");
  std::string bad = good;
  bad[bad.find("data")] = 'D';
  EXPECT_EQ(ZipArchive::Open(bad)->Read("x").status().code(), absl::StatusCode::kDataLoss);
  for (size_t size = 0; size < good.size(); ++size) {
    EXPECT_FALSE(ZipArchive::Open(absl::string_view(good).substr(0, size)).ok()) << size;
  }
}

TEST(zip_archive, EntryOutsideTheFileIsAnError) {
  std::string file = MakeZip("x", "data");
  const size_t entry = file.find("PK\1\2");
  for (const uint32_t offset : {0xFFFFFFF0u, 12u, static_cast<uint32_t>(file.size())}) {
    std::memcpy(&file[entry + 42], &offset, sizeof(offset));
    const auto archive = ZipArchive::Open(file);
    ASSERT_TRUE(archive.ok());
    EXPECT_FALSE(archive->Read("x").ok()) << offset;
  }
  const uint32_t size = 0x7FFFFFFF;
  file = MakeZip("x", "data");
  std::memcpy(&file[entry + 20], &size, sizeof(size));
  std::memcpy(&file[entry + 24], &size, sizeof(size));
  EXPECT_THAT(std::string(ZipArchive::Open(file)->Read("x").status().message()), HasSubstr("beyond the end"));
}

}  // namespace
}  // namespace mtrun::trainers
