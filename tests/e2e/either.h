// Behaviours that mtrun shares with torchrun: the same command line and the same workers under both. A test
// that also passes under the real torchrun is a correct test. Under torchrun, which starts slowly, the cases
// are named Torchrun/... and labelled long.
#pragma once

#include "tests/e2e/launcher.h"
#include "tests/support/peers_python.h"

namespace mtrun::e2e {

using support::PeersPython;

inline bool PeersHave(const std::string& module) {
  return Program({PeersPython(), "-c", "import " + module}).Wait() == 0;
}

enum class Launcher { kMtrun, kTorchrun };
inline void PrintTo(Launcher launcher, std::ostream* out) {
  *out << (launcher == Launcher::kMtrun ? "mtrun" : "torchrun");
}

class EitherTest : public LauncherTest, public testing::WithParamInterface<Launcher> {
 protected:
  void SetUp() override {
    if (!torchrun()) return;
    static const bool have = PeersHave("torch.distributed.run");
    if (!have) GTEST_SKIP() << "no Python with PyTorch: tools/setup --peers makes one";
  }

  bool torchrun() const { return GetParam() == Launcher::kTorchrun; }

  std::vector<std::string> Command(const std::vector<std::string>& args) const override {
    if (!torchrun()) return LauncherTest::Command(args);
    return Words({PeersPython(), "-m", "torch.distributed.run"}, args);
  }
  std::unique_ptr<Program> Start(const std::vector<std::string>& args,
                                 const support::Overlay& overlay = {}) const {
    support::Overlay environment = Environment();
    for (const auto& [name, value] : overlay) environment[name] = value;
    return std::make_unique<Program>(Command(args), environment);
  }

  /// Returns the exit status of a launcher whose worker failed with `code`; torchrun's is always 1.
  int Failed(int code) const { return torchrun() ? 1 : code; }
  /// Returns the status after a refused command line: torchrun raises errors that argparse has let through.
  int Refused() const { return Failed(2); }
};

}  // namespace mtrun::e2e

/// Instantiates all TEST_P of `fixture` under mtrun and under torchrun.
#define MT_UNDER_EITHER(fixture)                                                           \
  INSTANTIATE_TEST_SUITE_P(Mtrun, fixture, testing::Values(mtrun::e2e::Launcher::kMtrun)); \
  INSTANTIATE_TEST_SUITE_P(Torchrun, fixture, testing::Values(mtrun::e2e::Launcher::kTorchrun))
