#include "trainers/collectives/bootstrap_store.h"

#include <mutex>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/ascii.h"

namespace mtrun::collectives {
namespace {

/// An in-memory key-value store that, like the agent's channel, carries text only.
class TextBootstrap : public Bootstrap {
 public:
  absl::Status Set(std::string_view key, std::string_view value) override {
    for (const char c : value) {
      if (!absl::ascii_isprint(static_cast<unsigned char>(c))) return absl::InvalidArgumentError("not text");
    }
    const std::lock_guard lock(mu_);
    values_[std::string(key)] = std::string(value);
    return absl::OkStatus();
  }
  absl::StatusOr<std::map<std::string, std::string>> Wait(const std::vector<std::string>& keys) override {
    while (true) {
      const std::lock_guard lock(mu_);
      if (aborted_) return absl::AbortedError("the generation is over");
      if (values_.count(keys.front()) != 0) return values_;
    }
  }
  void Abort(std::string_view) override {
    const std::lock_guard lock(mu_);
    aborted_ = true;
  }

 private:
  std::mutex mu_;
  std::map<std::string, std::string> values_;
  bool aborted_ = false;
};

std::vector<uint8_t> AllBytes() {
  std::vector<uint8_t> bytes(256);
  for (int i = 0; i < 256; ++i) bytes[i] = static_cast<uint8_t>(i);
  return bytes;
}

TEST(BootstrapStore, CarriesAnyBytesBetweenProcesses) {
  const auto space = std::make_shared<TextBootstrap>();
  BootstrapStore one(space, "1.5/nccl/"), other(space, "1.5/nccl/");
  std::thread setter([&] { one.set("id", AllBytes()); });
  EXPECT_EQ(other.get("id"), AllBytes()) << "get waits for the key";
  setter.join();
  EXPECT_TRUE(one.check({"id"}));
  EXPECT_FALSE(one.check({"id", "else"}));
  one.set("empty", std::vector<uint8_t>{});
  EXPECT_TRUE(other.clone()->get("empty").empty());
}

TEST(BootstrapStore, GroupsAreIsolated) {
  const auto space = std::make_shared<TextBootstrap>();
  BootstrapStore first(space, "1.5/nccl/"), second(space, "1.6/nccl/");
  first.set("id", "a");
  second.set("id", "b");
  EXPECT_EQ(first.get_to_str("id"), "a");
  EXPECT_EQ(second.get_to_str("id"), "b");
}

TEST(BootstrapStore, AbortEndsAWaitWithItsReason) {
  const auto space = std::make_shared<TextBootstrap>();
  BootstrapStore store(space, "1.5/nccl/");
  std::thread aborter([&] { space->Abort(""); });
  try {
    store.wait({"never"});
    FAIL() << "the wait came back";
  } catch (const std::exception& error) {
    EXPECT_THAT(error.what(), ::testing::HasSubstr("the generation is over"));
  }
  aborter.join();
  EXPECT_THROW(store.add("count", 1), c10::Error);
}

}  // namespace
}  // namespace mtrun::collectives
