#include "trainers/program/python_model.h"

#include <gmock/gmock.h>

namespace mtrun::trainers {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

struct Network {
  const char* program;
  std::vector<std::string> files;
};

TEST(PythonModel, EachProgramHasAPythonModel) {
  const Network networks[] = {{"cnnA", {}},
                              {"cnnB", {"resnet", "cnnB"}},
                              {"vit", {}},
                              {"resnet18", {"resnet", "resnet224"}},
                              {"diffusion", {}}};
  for (const auto& [program, files] : networks) {
    const auto text = PythonModel(program, files, true);
    ASSERT_TRUE(text.ok()) << text.status();
    EXPECT_THAT(*text, AllOf(HasSubstr("class Model("), HasSubstr("def load("), HasSubstr("strict=True"),
                             HasSubstr("def example("), HasSubstr("ONNX = {"), HasSubstr("def export_onnx("),
                             HasSubstr("def main(files)")));
  }
  EXPECT_THAT(*PythonModel("diffusion", {}, false), Not(HasSubstr("def main(")));
}

TEST(PythonModel, FilesAreConcatenatedInOrder) {
  const std::string text = *PythonModel("cnnB", {"resnet", "cnnB"}, true);
  EXPECT_LT(text.find("class ResNet("), text.find("class Model(ResNet)"));
}

TEST(PythonModel, TrainerWithoutAPythonModelGetsAnError) {
  EXPECT_THAT(std::string(PythonModel("mine", {}, true).status().message()),
              AllOf(HasSubstr("--export needs the network of mine in Python"),
                    HasSubstr("there is no mine.py in trainers/program/python")));
  EXPECT_THAT(std::string(PythonModel("mine", {"resnet", "other"}, true).status().message()),
              HasSubstr("there is no other.py"));
}

}  // namespace
}  // namespace mtrun::trainers
