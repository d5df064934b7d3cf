// The C++ side of tools/bench/allreduce: processes all-reduce through c10d, like the trainers.
// allreduce_ranks FOLDER RANK WORLD BYTES ITERATIONS ordinary|shared|encrypted [ADDRESS] -> rank 0 prints the
// median microseconds per call.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include <torch/types.h>
#include <torch/utils.h>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "trainers/collectives/device_group.h"

namespace mtrun::collectives {
namespace {

/// Stores keys as files and polls every millisecond, before the measurement starts.
class FolderStore : public Bootstrap {
 public:
  explicit FolderStore(std::string folder) : folder_(std::move(folder)) {}
  absl::Status Set(std::string_view key, std::string_view value) override {
    const std::string name = Name(key), beside = absl::StrCat(name, ".", getpid());
    std::ofstream(beside, std::ios::binary) << value;
    std::filesystem::rename(beside, name);
    return absl::OkStatus();
  }
  absl::StatusOr<std::map<std::string, std::string>> Wait(const std::vector<std::string>& keys) override {
    std::map<std::string, std::string> values;
    for (const std::string& key : keys) {
      while (!std::filesystem::exists(Name(key))) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      std::ifstream file(Name(key), std::ios::binary);
      values[key] = std::string(std::istreambuf_iterator<char>(file), {});
    }
    return values;
  }
  void Abort(std::string_view) override {}

 private:
  std::string Name(std::string_view key) const {
    return absl::StrCat(folder_, "/", absl::BytesToHexString(absl::string_view(key.data(), key.size())));
  }
  const std::string folder_;
};

double MedianMicroseconds(const ProcessGroup& group, const at::Tensor& tensor, int iterations) {
  using Clock = std::chrono::steady_clock;
  std::vector<at::Tensor> tensors = {tensor};
  c10d::AllreduceOptions options;
  options.asyncOp = false;  // as in torch.distributed.all_reduce(tensor)
  const int warm_up = std::max(3, iterations / 10);
  std::vector<double> times;
  for (int i = -warm_up; i < iterations; ++i) {
    tensor.fill_(1.0f);
    const auto begin = Clock::now();
    group->allreduce(tensors, options)->wait();
    if (i >= 0) times.push_back(std::chrono::duration<double, std::micro>(Clock::now() - begin).count());
  }
  TORCH_CHECK(at::equal(tensor, at::full_like(tensor, group->getSize())), "the sum is wrong");
  std::nth_element(times.begin(), times.begin() + iterations / 2, times.end());
  return times[static_cast<size_t>(iterations / 2)];
}

int Main(int argc, char** argv) {
  GroupMember member;
  member.rank = std::atoi(argv[2]);
  member.world_size = std::atoi(argv[3]);
  member.address = argc > 7 ? argv[7] : "127.0.0.1";
  if (std::string(argv[6]) == "encrypted") member.wire.protection = Protection::kEncrypt;
  at::set_num_threads(1);
  auto group = ConnectGroup(member, std::make_shared<FolderStore>(argv[1]), at::kCPU);
  if (!group.ok()) return std::fprintf(stderr, "%s\n", group.status().ToString().c_str()), 1;
  const int64_t numel = std::atoll(argv[4]) / 4;
  const bool shared = std::string(argv[6]) == "shared";
  const at::Tensor tensor = shared ? SharedTensor(*group, numel, at::kFloat) : at::zeros({numel});
  const double median = MedianMicroseconds(*group, tensor, std::atoi(argv[5]));
  if (member.rank == 0) std::printf("%.2f\n", median);
  return 0;
}

}  // namespace
}  // namespace mtrun::collectives

int main(int argc, char** argv) {
  if (argc != 7 && argc != 8) {
    std::fprintf(stderr, "usage: allreduce_ranks FOLDER RANK WORLD BYTES ITERATIONS KIND [ADDRESS]\n");
    return 2;
  }
  return mtrun::collectives::Main(argc, argv);
}
