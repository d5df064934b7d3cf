#include "base/sha256.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "absl/strings/escaping.h"
#include "base/posix.h"

namespace mtrun {
namespace {

TEST(Sha256, MatchesFips180) {
  EXPECT_EQ(Sha256Hex(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(Sha256Hex("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

TEST(Sha256, PiecesEqualTheWhole) {
  const std::string text(100'000, 'q');
  Sha256 digest;
  digest.Update(text.substr(0, 33));
  digest.Update(text.substr(33));
  EXPECT_EQ(digest.Hex(), Sha256Hex(text));
}

TEST(Sha256, HashesAFile) {
  const std::string folder = *MakeTemporaryFolder("mtrun-sha-");
  const std::string text(3'000'001, 'z');
  ASSERT_TRUE(WriteFileAtomically(folder + "/f", text).ok());
  EXPECT_EQ(*Sha256OfFile(folder + "/f"), Sha256Hex(text));
  EXPECT_EQ(Sha256OfFile(folder + "/none").status().code(), absl::StatusCode::kNotFound);
  std::filesystem::remove_all(folder);
}

TEST(HmacSha256, MatchesRfc4231CaseTwo) {
  EXPECT_EQ(absl::BytesToHexString(HmacSha256("Jefe", "what do ya want for nothing?")),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
}

TEST(ConstantTimeEqual, ComparesLengthAndBytes) {
  EXPECT_TRUE(ConstantTimeEqual("same", "same"));
  EXPECT_FALSE(ConstantTimeEqual("same", "sane"));
  EXPECT_FALSE(ConstantTimeEqual("same", "sam"));
}

}  // namespace
}  // namespace mtrun
