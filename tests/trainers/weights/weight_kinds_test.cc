// Tests every row of the table of weight files in docs/trainers.md: Python writes a file of the kind, and
// this code reads the same values or refuses it in the quoted words. Skipped if there is no Python with
// PyTorch (tools/setup --peers).
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/conv.h>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_split.h"
#include "nlohmann/json.hpp"
#include "tests/support/peers_python.h"
#include "tests/support/program.h"
#include "trainers/weights/init_from.h"

namespace mtrun::trainers {
namespace {

using ::testing::HasSubstr;

/// One row: "| kind | read, or refused as "words" | peer |".
struct DocumentedKind {
  std::string refusal;  // "": it is read
  std::string peer;
};

std::map<std::string, DocumentedKind> TableOfDocs() {
  std::ifstream page(support::TestFile("../docs/trainers.md"));
  std::map<std::string, DocumentedKind> rows;
  bool inside = false;
  for (std::string line; std::getline(page, line);) {
    inside = inside ? absl::StartsWith(line, "|") : absl::StartsWith(line, "| kind of file |");
    const std::vector<std::string> cells = absl::StrSplit(line, '|');
    if (!inside || cells.size() != 5 || absl::StartsWith(line, "| kind of file |")) continue;
    const auto cell = [&](size_t i) { return std::string(absl::StripAsciiWhitespace(cells[i])); };
    const size_t open = cell(2).find('"'), close = cell(2).rfind('"');
    if (absl::StartsWith(cell(1), "---")) continue;
    rows[cell(1)] = {open == std::string::npos ? "" : cell(2).substr(open + 1, close - open - 1), cell(3)};
    EXPECT_TRUE(cell(2) == "read" || open != close) << line;
  }
  return rows;
}

torch::nn::Sequential Network() {
  torch::nn::Sequential network(torch::nn::Conv2d(torch::nn::Conv2dOptions(3, 2, 3)),
                                torch::nn::BatchNorm2d(2));
  return network;
}

/// The folder of all files is made once.
class WeightKinds : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    const std::string python = support::PeersPython();
    if (python.empty()) return;
    folder_ = new support::TemporaryFolder;
    support::Program program(
        {python, support::TestFile("trainers/weights/weight_kinds.py"), folder_->path()});
    ASSERT_EQ(program.Wait(), 0) << program.Text();
  }
  static void TearDownTestSuite() { delete folder_; }
  void SetUp() override {
    if (folder_ == nullptr) GTEST_SKIP() << "no Python with PyTorch (tools/setup --peers)";
  }
  static void ExpectRead(const nlohmann::json& kind) {
    const torch::nn::Sequential network = Network();
    const absl::Status read = InitFrom(folder_->File(kind["file"]), *network);
    ASSERT_TRUE(read.ok()) << read;
    const auto expected = LoadTensors(folder_->File(kind["expected"]));
    ASSERT_TRUE(expected.ok()) << expected.status();
    const std::map<std::string, at::Tensor> values(expected->begin(), expected->end());
    for (const auto& [name, tensor] : StateDict(*network))
      EXPECT_TRUE(tensor.equal(values.at(name).to(tensor.scalar_type()).reshape(tensor.sizes())))
          << name << tensor;
  }
  static void ExpectRefused(const nlohmann::json& kind, const std::string& words) {
    const absl::Status read = InitFrom(folder_->File(kind["file"]), *Network());
    EXPECT_THAT(std::string(read.message()), HasSubstr(words));
    EXPECT_THAT(std::string(read.message()), HasSubstr(folder_->File(kind["file"])));
  }

  static support::TemporaryFolder* folder_;
};
support::TemporaryFolder* WeightKinds::folder_ = nullptr;

TEST_F(WeightKinds, TableOfDocumentsHolds) {
  const nlohmann::json kinds = nlohmann::json::parse(support::ReadText(folder_->File("kinds.json")));
  std::map<std::string, DocumentedKind> rows = TableOfDocs();
  for (const auto& kind : kinds) {
    SCOPED_TRACE(kind["kind"].get<std::string>());
    const auto row = rows.find(kind["kind"]);
    if (row == rows.end()) {
      ADD_FAILURE() << "docs/trainers.md lacks the row";
      continue;
    }
    EXPECT_EQ(row->second.peer, kind["peer"]);
    if (row->second.refusal.empty()) {
      ExpectRead(kind);
    } else {
      ExpectRefused(kind, row->second.refusal);
    }
    rows.erase(row);
  }
  for (const auto& row : rows) ADD_FAILURE() << "no file for the row: " << row.first;
  EXPECT_FALSE(std::filesystem::exists(folder_->File("executed"))) << "a pickle was executed";
}

}  // namespace
}  // namespace mtrun::trainers
