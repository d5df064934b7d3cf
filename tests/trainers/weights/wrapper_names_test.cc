#include "trainers/weights/wrapper_names.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace mtrun::trainers {
namespace {

using ::testing::ElementsAre;
using ::testing::Optional;
using ::testing::StrEq;

const std::set<std::string> kOfNetwork{"conv.weight", "fc.weight"};

TEST(WrapperNames, WrappersOfAnyOrderComeOff) {
  for (const std::string prefix : {"", "module.", "_orig_mod.", "module._orig_mod.", "_orig_mod.module.",
                                   "model.", "model._orig_mod.module."}) {
    EXPECT_THAT(WithoutWrappers({prefix + "conv.weight", prefix + "fc.weight"}, kOfNetwork),
                ElementsAre(Optional(StrEq("conv.weight")), Optional(StrEq("fc.weight"))))
        << prefix;
  }
}

TEST(WrapperNames, CounterOfAnAveragedModelIsLeftOut) {
  EXPECT_THAT(WithoutWrappers({"n_averaged", "module.conv.weight"}, kOfNetwork),
              ElementsAre(std::nullopt, Optional(StrEq("conv.weight"))));
  EXPECT_THAT(WithoutWrappers({"n_averaged", "conv.weight"}, kOfNetwork),
              ElementsAre(Optional(StrEq("n_averaged")), Optional(StrEq("conv.weight"))))
      << "it is no AveragedModel's";
}

TEST(WrapperNames, NamesOfTheNetworkStay) {
  const std::set<std::string> wanted{"model.conv.weight", "model.fc.weight"};
  for (const std::string prefix : {"", "module.", "model."}) {
    EXPECT_THAT(WithoutWrappers({prefix + "model.conv.weight", prefix + "model.fc.weight"}, wanted),
                ElementsAre(Optional(StrEq("model.conv.weight")), Optional(StrEq("model.fc.weight"))))
        << prefix;
  }
}

TEST(WrapperNames, PrefixOfSomeNamesStays) {
  EXPECT_THAT(WithoutWrappers({"model.conv.weight", "loss.weight"}, kOfNetwork),
              ElementsAre(Optional(StrEq("model.conv.weight")), Optional(StrEq("loss.weight"))));
  EXPECT_TRUE(WithoutWrappers({}, kOfNetwork).empty());
}

}  // namespace
}  // namespace mtrun::trainers
