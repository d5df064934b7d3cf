#include "trainers/weights/safetensors.h"

#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/linear.h>

#include "base/posix.h"

namespace mtrun::trainers {
namespace {

using ::testing::HasSubstr;

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

TEST_F(SafetensorsTest, EveryDtypeComesBack) {
  const at::Tensor base = at::arange(6).reshape({2, 3});
  NamedTensors tensors;
  for (const auto type :
       {at::kByte, at::kInt, at::kLong, at::kHalf, at::kBFloat16, at::kFloat, at::kDouble}) {
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
    EXPECT_TRUE(by_name[name].equal(tensor)) << name;
  }
}

TEST_F(SafetensorsTest, AModelIsSetFromAFile) {
  const TwoTensors first;
  ASSERT_TRUE(SaveTensors(path_, StateDict(first), {}).ok());
  TwoTensors second;
  second.to(at::kDouble);
  ASSERT_TRUE(InitFrom(path_, second).ok());
  for (const auto& p : first.named_parameters()) {
    EXPECT_TRUE(second.named_parameters()[p.key()].equal(p.value().to(at::kDouble))) << p.key();
  }
}

TEST_F(SafetensorsTest, WhatDoesNotFitIsNamed) {
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

TEST_F(SafetensorsTest, ABadFileIsNamed) {
  EXPECT_THAT(std::string(LoadTensors(folder_ + "/none").status().message()), HasSubstr("/none"));
  ASSERT_TRUE(WriteFileAtomically(path_, "not tensors").ok());
  EXPECT_THAT(std::string(LoadTensors(path_).status().message()), HasSubstr(path_));
}

}  // namespace
}  // namespace mtrun::trainers
