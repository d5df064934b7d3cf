#include "trainers/weights/safetensors.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/linear.h>

#include "base/posix.h"
#include "trainers/weights/init_from.h"

namespace mtrun::trainers {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

struct TwoTensors : torch::nn::Module {
  TwoTensors() {
    register_module("fc1", torch::nn::Linear(3, 4));
    register_module("bn", torch::nn::BatchNorm1d(4));
  }
};

class SafetensorsTest : public ::testing::Test {
 protected:
  SafetensorsTest() : folder_(*MakeTemporaryFolder("mtrun_tensors_")), path_(folder_ + "/t.safetensors") {}
  ~SafetensorsTest() override { std::filesystem::remove_all(folder_); }
  std::string InitError(const NamedTensors& file) {
    EXPECT_TRUE(SaveTensors(path_, file, {}).ok());
    const TwoTensors model;
    const absl::Status status = InitFrom(path_, model);
    return status.ok() ? "no error" : std::string(status.message());
  }

  const std::string folder_, path_;
};

TEST_F(SafetensorsTest, EveryDtypeRoundTrips) {
  const at::Tensor base = at::arange(6).reshape({2, 3});
  NamedTensors tensors;
  for (const auto type : {at::kBool, at::kByte, at::kChar, at::kUInt16, at::kShort, at::kUInt32, at::kInt,
                          at::kUInt64, at::kLong, at::kFloat8_e4m3fn, at::kFloat8_e5m2, at::kFloat8_e4m3fnuz,
                          at::kFloat8_e5m2fnuz, at::kHalf, at::kBFloat16, at::kFloat, at::kDouble}) {
    tensors.emplace_back(c10::toString(type), base.to(type));
  }
  tensors.emplace_back("scalar", at::scalar_tensor(7, at::kLong));
  tensors.emplace_back("empty", at::zeros({0, 3}));
  tensors.emplace_back("strided", base.t());
  ASSERT_TRUE(SaveTensors(path_, tensors, {{"program", "test"}}).ok());
  const auto loaded = LoadTensors(path_);
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  std::map<std::string, at::Tensor> by_name(loaded->begin(), loaded->end());
  ASSERT_EQ(by_name.size(), tensors.size());
  for (const auto& [name, tensor] : tensors) {
    EXPECT_EQ(by_name[name].scalar_type(), tensor.scalar_type()) << name;
    EXPECT_TRUE(by_name[name].to(at::kDouble).equal(tensor.to(at::kDouble))) << name;
  }
}

TEST_F(SafetensorsTest, ModelIsLoadedFromAFile) {
  const TwoTensors first;
  ASSERT_TRUE(SaveTensors(path_, StateDict(first), {}).ok());
  TwoTensors second;
  second.to(at::kDouble);
  ASSERT_TRUE(InitFrom(path_, second).ok());
  for (const auto& p : first.named_parameters()) {
    EXPECT_TRUE(second.named_parameters()[p.key()].equal(p.value().to(at::kDouble))) << p.key();
  }
}

TEST_F(SafetensorsTest, MismatchedTensorsAreNamed) {
  NamedTensors state = StateDict(TwoTensors());
  EXPECT_EQ(InitError(state), "no error");
  NamedTensors renamed = state;
  renamed[0].first = "fc2.weight";
  EXPECT_THAT(InitError(renamed), ::testing::AllOf(HasSubstr("missing fc1.weight"),
                                                   HasSubstr("unexpected fc2.weight"), HasSubstr(path_)));
  NamedTensors reshaped = state;
  reshaped[0].second = at::zeros({4, 5});
  EXPECT_THAT(InitError(reshaped), HasSubstr("fc1.weight is [4, 5] in the file and [4, 3] in the model"));
  EXPECT_THAT(InitError({}), HasSubstr("missing fc1.weight, fc1.bias, bn.weight and 3 more"));
}

/// Training would end at its first step, and an evaluation or a prediction would show NaN.
TEST_F(SafetensorsTest, NumbersThatAreNoneAreNamed) {
  NamedTensors state;
  for (const auto& [name, tensor] : StateDict(TwoTensors())) state.emplace_back(name, tensor.clone());
  state[0].second.fill_(std::nan(""))[0][0] = 1;
  EXPECT_THAT(InitError(state), HasSubstr("fc1.weight has NaN in 11 of its 12 values"));
  state[0].second = at::full({4, 3}, std::numeric_limits<double>::infinity(), at::kDouble);
  EXPECT_THAT(InitError(state), HasSubstr("fc1.weight has infinity in 12 of its 12 values"));
  state[0].second = at::full({4, 3}, 1e300, at::kDouble);
  EXPECT_EQ(InitError(state), "no error") << "a large number is one, in the file's dtype";
  state[0].second = at::zeros({4, 3}).to(at::kFloat8_e5m2);
  EXPECT_EQ(InitError(state), "no error");
  const auto mean =
      std::find_if(state.begin(), state.end(), [](const auto& i) { return i.first == "bn.running_mean"; });
  mean->second.fill_(-std::numeric_limits<double>::infinity());
  EXPECT_EQ(InitError(state), "no error") << "a buffer can be a mask";
  mean->second.fill_(std::nan(""));
  EXPECT_THAT(InitError(state), HasSubstr("bn.running_mean has NaN in 4 of its 4 values"));
}

/// A layer that is not taken from the file may hold anything.
TEST_F(SafetensorsTest, OtherLastLayerIsNotLookedAt) {
  NamedTensors state = StateDict(TwoTensors());
  for (auto& [name, tensor] : state) {
    if (name == "fc1.weight") tensor = at::full({7, 3}, std::nan(""));
  }
  const TwoTensors model;
  const at::Tensor own = model.named_parameters()["fc1.weight"].clone();
  ASSERT_TRUE(SaveTensors(path_, state, {}).ok());
  EXPECT_TRUE(InitFrom(path_, model, "--weights", "fc1.").ok());
  EXPECT_TRUE(model.named_parameters()["fc1.weight"].equal(own));
}

TEST_F(SafetensorsTest, OptionThatNamedTheFileIsNamed) {
  const TwoTensors model;
  ASSERT_TRUE(SaveTensors(path_, {}, {}).ok());
  EXPECT_THAT(std::string(InitFrom(path_, model, "--weights").message()), StartsWith("--weights " + path_));
  EXPECT_THAT(std::string(InitFrom(folder_ + "/none", model, "--weights").message()),
              StartsWith("--weights: "));
  EXPECT_THAT(std::string(InitFrom(path_, model).message()), StartsWith("--init_from " + path_));
}

/// transformers and accelerate refuse files without it.
TEST_F(SafetensorsTest, FilesAreMarkedAsPyTorchs) {
  ASSERT_TRUE(SaveTensors(path_, {}, {{"program", "test"}}).ok());
  EXPECT_EQ(ReadMetadata(path_)->at("format"), "pt");
}

TEST_F(SafetensorsTest, IndexNamesItsFilesAndTheirTensors) {
  const NamedTensors state = StateDict(TwoTensors());
  const std::string index = folder_ + "/m.safetensors.index.json";
  const auto error = [&](const std::string& map) {
    EXPECT_TRUE(WriteFileAtomically(index, "{\"weight_map\":" + map + "}").ok());
    const absl::Status status = InitFrom(index, TwoTensors());
    return status.ok() ? "no error" : std::string(status.message());
  };
  ASSERT_TRUE(SaveTensors(folder_ + "/a.safetensors", {state[0]}, {}).ok());
  EXPECT_THAT(error(R"({"fc1.weight":"a.safetensors"})"), HasSubstr("missing fc1.bias"));
  EXPECT_THAT(error(R"({"fc1.weight":"a.safetensors","fc1.bias":"a.safetensors"})"),
              HasSubstr("a.safetensors has only 1 of its 2 tensors"));
  EXPECT_THAT(error(R"({"fc1.weight":"../a.safetensors"})"),
              HasSubstr("no file beside it is named for fc1.weight"));
  EXPECT_THAT(error("{}"), HasSubstr("has a weight_map"));
}

TEST_F(SafetensorsTest, BadFileIsNamed) {
  EXPECT_THAT(std::string(LoadTensors(folder_ + "/none").status().message()), HasSubstr("/none"));
  ASSERT_TRUE(WriteFileAtomically(path_, "not tensors").ok());
  EXPECT_THAT(std::string(LoadTensors(path_).status().message()), HasSubstr(path_));
}

}  // namespace
}  // namespace mtrun::trainers
