#include "web/router.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace mtrun::web {
namespace {

using testing::Contains;
using testing::Pair;

Handler Says(const std::string& text) {
  return [text](const Request&, const Reply& reply) { reply({.body = text}); };
}

/// Returns the answer of the handler that was found, or the status if there is none.
std::string Answer(const Router::Found& found) {
  std::string said = std::to_string(found.otherwise.status);
  if (found.handler != nullptr) (*found.handler)({}, [&](const Response& response) { said = response.body; });
  return said;
}

TEST(RouterTest, MethodAndPathMustMatch) {
  const Router router(
      {{"GET", "/", Says("page")}, {"GET", "/data", Says("data")}, {"POST", "/data", Says("kept")}});
  EXPECT_EQ(Answer(router.Find("GET", "/")), "page");
  EXPECT_EQ(Answer(router.Find("GET", "/data")), "data");
  EXPECT_EQ(Answer(router.Find("HEAD", "/data")), "data");
  EXPECT_EQ(Answer(router.Find("POST", "/data")), "kept");
  for (const char* path : {"/data/", "/Data", "/dat", "", "*"})
    EXPECT_EQ(Answer(router.Find("GET", path)), "404");
}

TEST(RouterTest, WrongMethodGetsTheAllowedOnes) {
  const Router router(
      {{"GET", "/data", Says("data")}, {"POST", "/data", Says("kept")}, {"POST", "/in", Says("in")}});
  for (const char* method : {"PUT", "get", "BREW"}) {
    const Router::Found found = router.Find(method, "/data");
    EXPECT_EQ(Answer(found), "405");
    EXPECT_THAT(found.otherwise.headers, Contains(Pair("Allow", "GET, HEAD, POST")));
  }
  EXPECT_EQ(Answer(router.Find("HEAD", "/in")), "405");
  EXPECT_EQ(Answer(router.Find("PUT", "/nowhere")), "404");
}

TEST(RouterTest, EveryPathRouteMatchesUnnamedPaths) {
  const Router router(
      {{"GET", kEveryPath, Says("any")}, {"GET", "/data", Says("data")}, {"POST", "/in", Says("in")}});
  EXPECT_EQ(Answer(router.Find("GET", "/anything/else")), "any");
  EXPECT_EQ(Answer(router.Find("GET", "/data")), "data");
  EXPECT_EQ(Answer(router.Find("GET", "/in")), "405");
  EXPECT_EQ(Answer(router.Find("POST", "/anything")), "405");
}

TEST(RouterTest, NoRoutesServeNothing) { EXPECT_EQ(Answer(Router({}).Find("GET", "/")), "404"); }

}  // namespace
}  // namespace mtrun::web
