#include "page/passwords.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/token.h"

namespace mtrun::page {
namespace {

using testing::HasSubstr;
using testing::MatchesRegex;
using testing::Not;

TEST(PasswordsTest, EachRoleHasItsPasswordAndTheTokenIsNotOne) {
  const std::string viewer = PasswordOf(Role::kViewer, support::kToken);
  const std::string op = PasswordOf(Role::kOperator, support::kToken);
  EXPECT_THAT(viewer, MatchesRegex("([a-z2-7]{6}-){3}[a-z2-7]{6}"));
  EXPECT_NE(viewer, op);
  EXPECT_EQ(RoleOf(viewer, support::kToken), Role::kViewer);
  EXPECT_EQ(RoleOf(" " + op + "\n", support::kToken), Role::kOperator);
  EXPECT_EQ(RoleOf(support::kToken, support::kToken), std::nullopt);
  EXPECT_EQ(RoleOf("", support::kToken), std::nullopt);
  EXPECT_EQ(RoleOf(viewer.substr(1), support::kToken), std::nullopt);
  EXPECT_NE(PasswordOf(Role::kViewer, "another token"), viewer);
}

TEST(PasswordsTest, TableShowsBothPasswordsAndNotTheToken) {
  const std::string table = PasswordTable(support::kToken);
  EXPECT_THAT(table, HasSubstr(PasswordOf(Role::kViewer, support::kToken)));
  EXPECT_THAT(table, HasSubstr(PasswordOf(Role::kOperator, support::kToken)));
  EXPECT_THAT(table, Not(HasSubstr(support::kToken)));
}

}  // namespace
}  // namespace mtrun::page
