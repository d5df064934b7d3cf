#include "trainers/engine/error_file.h"

#include <filesystem>

#include <gtest/gtest.h>

#include "base/posix.h"
#include "nlohmann/json.hpp"

namespace mtrun::engine {
namespace {

TEST(ErrorFile, HasTorchrunsShape) {
  const auto json = nlohmann::json::parse(ErrorFileText("the loss is \"nan\"", 1700000000));
  EXPECT_EQ(json["message"]["message"], "the loss is \"nan\"");
  EXPECT_EQ(json["message"]["extraInfo"]["timestamp"], "1700000000");
}

TEST(ErrorFile, BytesThatAreNotTextDoNotThrow) { EXPECT_NE(ErrorFileText("\xff\xfe", 0), ""); }

TEST(ErrorFile, NoPathIsFineAndAPathIsWritten) {
  EXPECT_TRUE(WriteErrorFile("", "x").ok());
  const std::string folder = *MakeTemporaryFolder("mtrun_error_");
  ASSERT_TRUE(WriteErrorFile(folder + "/error.json", "x").ok());
  EXPECT_EQ(nlohmann::json::parse(*ReadFile(folder + "/error.json"))["message"]["message"], "x");
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace mtrun::engine
