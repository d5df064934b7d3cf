#include "trainers/weights/pth_reader.h"

#include <cstdlib>
#include <cstring>
#include <iostream>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include "base/posix.h"
#include "trainers/weights/init_from.h"
#include "trainers/weights/zip_archive.h"

namespace mtrun::trainers {
namespace {

using ::testing::HasSubstr;

std::string Path(const std::string& name) {
  const char* source = std::getenv("MT_SOURCE_DIR");
  return std::string(source == nullptr ? "." : source) + "/tests/testdata/pth/" + name;
}

std::string PthBytes(const std::string& name) {
  const auto file = ReadFile(Path(name));
  EXPECT_TRUE(file.ok()) << file.status();
  return file.value_or("");
}

/// Compares two files that Python saved: one with torch.save, one as safetensors.
void ExpectSameTensors(const std::string& name) {
  SCOPED_TRACE(name);
  const auto got = LoadPth(Path(name + ".pth"));
  const auto saved = LoadTensors(Path(name + ".safetensors"));
  ASSERT_TRUE(got.ok()) << got.status();
  ASSERT_TRUE(saved.ok()) << saved.status();
  const std::map<std::string, at::Tensor> want(saved->begin(), saved->end());
  EXPECT_EQ(got->size(), want.size());
  for (const auto& [key, tensor] : *got) {
    ASSERT_TRUE(want.count(key)) << key;
    const at::Tensor& expected = want.at(key);
    EXPECT_TRUE(tensor.is_contiguous()) << key;
    EXPECT_EQ(tensor.sizes(), expected.sizes()) << key;
    EXPECT_TRUE(tensor.scalar_type() == expected.scalar_type() || tensor.scalar_type() == at::kBool) << key;
    EXPECT_TRUE(tensor.to(expected.scalar_type()).equal(expected)) << key;
  }
}

TEST(pth_reader, ReadsFilesSavedByPython) {
  for (const char* name : {"zip", "legacy", "protocol4", "module", "parameters"}) ExpectSameTensors(name);
}

TEST(pth_reader, FindsTheWeightsInACheckpointAndDropsTheDdpPrefix) {
  const auto wrapped = LoadPth(Path("checkpoint.pth"));
  ASSERT_TRUE(wrapped.ok()) << wrapped.status();
  EXPECT_EQ(wrapped->front().first, "module.0.weight");
  const auto plain = LoadWeights(Path("checkpoint.pth"), {"0.weight"});
  ASSERT_TRUE(plain.ok()) << plain.status();
  EXPECT_EQ(plain->front().first, "0.weight");
  EXPECT_TRUE(plain->front().second.equal(wrapped->front().second));
}

TEST(pth_reader, KeepsTheOrderOfTheFile) {
  const auto got = LoadPth(Path("module.pth"));
  ASSERT_TRUE(got.ok());
  std::vector<std::string> names;
  for (const auto& item : *got) names.push_back(item.first);
  EXPECT_THAT(names, ::testing::ElementsAre("0.weight", "0.bias", "1.weight", "1.bias", "1.running_mean",
                                            "1.running_var", "1.num_batches_tracked"));
}

TEST(pth_reader, LoadWeightsReadsBothFormats) {
  const auto pth = LoadWeights(Path("module.pth"), {}),
             safetensors = LoadWeights(Path("module.safetensors"), {});
  ASSERT_TRUE(pth.ok() && safetensors.ok()) << pth.status() << safetensors.status();
  EXPECT_EQ(pth->size(), safetensors->size());
  EXPECT_FALSE(LoadWeights(Path("not_there.pth"), {}).ok());
}

TEST(pth_reader, RefusesCode) {
  const auto harmful = LoadPth(Path("bad_harmful.pth"));
  EXPECT_EQ(harmful.status().code(), absl::StatusCode::kPermissionDenied);
  EXPECT_THAT(std::string(harmful.status().message()), HasSubstr(".system"));
  EXPECT_THAT(std::string(harmful.status().message()), HasSubstr("bad_harmful.pth"));
  const auto module = LoadPth(Path("bad_module.pth"));
  EXPECT_EQ(module.status().code(), absl::StatusCode::kPermissionDenied);
  EXPECT_THAT(std::string(module.status().message()), HasSubstr("state_dict"));
}

TEST(pth_reader, ReportsWhatItFoundInstead) {
  const auto other = LoadPth(Path("bad_no_state_dict.pth"));
  EXPECT_EQ(other.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(other.status().message()), HasSubstr("epoch, weights"));
  EXPECT_THAT(std::string(ParsePth("hello").status().message()), HasSubstr("torch.save"));
}

TEST(pth_reader, EveryTruncationIsAnError) {
  for (const char* name : {"zip.pth", "legacy.pth"}) {
    const std::string file = PthBytes(name);
    for (size_t size = 0; size < file.size(); ++size) {
      EXPECT_FALSE(ParsePth(absl::string_view(file).substr(0, size)).ok()) << name << " " << size;
    }
  }
}

TEST(pth_reader, DamagedBytesFailTheChecksum) {
  std::string file = PthBytes("zip.pth");
  const auto archive = ZipArchive::Open(file);
  ASSERT_TRUE(archive.ok());
  const auto data = archive->Read("zip/data/0");
  ASSERT_TRUE(data.ok()) << data.status();
  file[static_cast<size_t>(data->data() - file.data())] ^= 1;
  EXPECT_THAT(std::string(ParsePth(file).status().message()),
              HasSubstr("zip/data/0 does not match its checksum"));
}

uint64_t Seed() {
  const char* given = std::getenv("MTRUN_SEED");
  const uint64_t seed = given != nullptr ? std::strtoull(given, nullptr, 10) : std::random_device{}();
  std::cout << "MTRUN_SEED=" << seed << std::endl;
  return seed;
}

void Mutate(std::string& bytes, size_t begin, size_t size, std::mt19937_64& random) {
  const auto below = [&](size_t n) { return static_cast<size_t>(random() % n); };
  const int changes = 1 + static_cast<int>(below(6));
  for (int i = 0; i < changes; ++i) {
    char& byte = bytes[begin + below(size)];
    switch (below(4)) {
      case 0:
        byte = static_cast<char>(random());
        break;
      case 1:
        byte = static_cast<char>(byte ^ (1 << below(8)));
        break;
      case 2:
        byte = bytes[begin + below(size)];
        break;
      default:
        byte = static_cast<char>(below(2) == 0 ? 0xFF : 0);
        break;
    }
  }
}

/// Gives data.pkl in a zip the checksum of its bytes, so that damage reaches the parser.
void RepairChecksum(std::string& file, const std::string& name, absl::string_view data) {
  const uint32_t crc = crc32_z(0, reinterpret_cast<const Bytef*>(data.data()), data.size());
  for (size_t at = file.find("PK\1\2"); at != std::string::npos; at = file.find("PK\1\2", at + 4)) {
    if (file.compare(at + 46, name.size(), name) == 0) std::memcpy(&file[at + 16], &crc, sizeof(crc));
  }
}

/// Files must cause neither crashes nor unlimited memory use; the dev preset adds AddressSanitizer.
TEST(pth_reader, SurvivesRandomBytes) {
  std::mt19937_64 random(Seed());
  const std::string zip = PthBytes("zip.pth"), legacy = PthBytes("legacy.pth"),
                    protocol4 = PthBytes("protocol4.pth");
  int errors = 0;
  for (int round = 0; round < 3000; ++round) {
    std::string file = round % 3 == 0 ? zip : round % 3 == 1 ? legacy : protocol4;
    Mutate(file, 0, file.size(), random);
    if (round % 7 == 0) file.resize(random() % file.size());
    errors += !ParsePth(file).ok();
  }
  EXPECT_GT(errors, 1000);
}

TEST(pth_reader, SurvivesRandomPickles) {
  std::mt19937_64 random(Seed());
  for (const char* name : {"zip", "protocol4"}) {
    const std::string original = PthBytes(std::string(name) + ".pth"),
                      entry = std::string(name) + "/data.pkl";
    const auto archive = ZipArchive::Open(original);
    ASSERT_TRUE(archive.ok());
    const absl::string_view data = *archive->Read(entry);
    const size_t begin = static_cast<size_t>(data.data() - original.data());
    int errors = 0;
    for (int round = 0; round < 5000; ++round) {
      std::string file = original;
      Mutate(file, begin, data.size(), random);
      RepairChecksum(file, entry, absl::string_view(file).substr(begin, data.size()));
      const auto tensors = ParsePth(file);
      errors += !tensors.ok();
      EXPECT_FALSE(absl::IsInternal(tensors.status())) << tensors.status();
    }
    EXPECT_GT(errors, 1000) << "the damage did not reach the parser";
    EXPECT_LT(errors, 5000);
  }
}

}  // namespace
}  // namespace mtrun::trainers
