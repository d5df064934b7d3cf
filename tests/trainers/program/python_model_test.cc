#include "trainers/program/python_model.h"

#include <gmock/gmock.h>

namespace mtrun::trainers {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(PythonModel, EachProgramHasOne) {
  for (const char* program : {"cnnA", "cnnB", "vit", "resnet18", "diffusion"}) {
    EXPECT_THAT(PythonModel(program, true),
                AllOf(HasSubstr("class Model("), HasSubstr("def load("), HasSubstr("strict=True"),
                      HasSubstr("def example("), HasSubstr("ONNX = {"), HasSubstr("def main(files)")));
  }
  EXPECT_THAT(PythonModel("diffusion", false), Not(HasSubstr("def main(")));
}

}  // namespace
}  // namespace mtrun::trainers
