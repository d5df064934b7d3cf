#include "trainers/collectives/cpu_group.h"

#include <netinet/in.h>
#include <sys/socket.h>

#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "absl/strings/str_cat.h"
#include "tests/trainers/collectives/run_ranks.h"
#include "trainers/collectives/all_reduce.h"
#include "trainers/collectives/device_group.h"
#include "trainers/collectives/tcp_store_bootstrap.h"

namespace mtrun::collectives {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

ProcessGroup MustConnect(const RankContext& context) {
  GroupMember membership;
  membership.rank = context.rank;
  membership.world_size = context.world;
  membership.generation = "3.f00";
  membership.address = "127.0.0.1";
  auto group = ConnectGroup(membership, std::make_shared<FolderBootstrap>(context.folder), at::kCPU);
  EXPECT_TRUE(group.ok()) << group.status();
  if (!group.ok()) _exit(1);
  return *group;
}

at::Tensor AllReduced(const ProcessGroup& group, const at::Tensor& tensor, c10d::ReduceOp::RedOpType op) {
  AllReduce(group, tensor, op);
  return tensor;
}

TEST(CpuGroupTest, ReducesThroughTheDispatcher) {
  RunProcesses(3, [](const RankContext& context) {
    const ProcessGroup group = MustConnect(context);
    EXPECT_EQ(group->getRank(), context.rank);
    EXPECT_EQ(group->getSize(), 3);
    const float mine = static_cast<float>(context.rank + 1);
    for (int64_t numel : {0, 1, 1000, 300001}) {
      EXPECT_TRUE(at::equal(AllReduced(group, at::full({numel}, mine), c10d::ReduceOp::SUM),
                            at::full({numel}, 6.0f)));
    }
    EXPECT_TRUE(at::equal(AllReduced(group, at::full({5}, mine, at::kDouble), c10d::ReduceOp::AVG),
                          at::full({5}, 2.0, at::kDouble)));
    EXPECT_TRUE(at::equal(AllReduced(group, at::full({5}, context.rank, at::kLong), c10d::ReduceOp::MAX),
                          at::full({5}, 2, at::kLong)));
    EXPECT_TRUE(at::equal(AllReduced(group, at::full({5}, mine, at::kBFloat16), c10d::ReduceOp::MIN),
                          at::full({5}, 1, at::kBFloat16)));
    const auto weights = at::full({2, 3, 4, 5}, mine).contiguous(at::MemoryFormat::ChannelsLast);
    EXPECT_TRUE(at::equal(AllReduced(group, weights, c10d::ReduceOp::SUM), at::full({2, 3, 4, 5}, 6.0f)));
  });
}

TEST(CpuGroupTest, BroadcastsAndGathersAnyType) {
  RunProcesses(2, [](const RankContext& context) {
    const ProcessGroup group = MustConnect(context);
    for (at::ScalarType dtype : {at::kFloat, at::kHalf, at::kBool, at::kInt}) {
      std::vector<at::Tensor> tensors = {at::full({7}, context.rank, dtype)};
      c10d::BroadcastOptions options;
      options.rootRank = 1;
      group->broadcast(tensors, options)->wait();
      EXPECT_TRUE(at::equal(tensors[0], at::full({7}, 1, dtype)));
    }
    std::vector<at::Tensor> inputs = {at::full({2, 3}, context.rank, at::kInt)};
    std::vector<std::vector<at::Tensor>> outputs = {
        {at::empty({2, 3}, at::kInt), at::empty({2, 3}, at::kInt)}};
    group->allgather(outputs, inputs)->wait();
    at::Tensor flat = at::empty({4, 3}, at::kInt);
    group->_allgather_base(flat, inputs[0])->wait();
    for (int rank : {0, 1}) {
      EXPECT_TRUE(at::equal(outputs[0][static_cast<size_t>(rank)], at::full({2, 3}, rank, at::kInt)));
      EXPECT_TRUE(at::equal(flat.narrow(0, 2 * rank, 2), at::full({2, 3}, rank, at::kInt)));
    }
    group->barrier()->wait();
  });
}

TEST(CpuGroupTest, WorksAreAsynchronousAndHaveFutures) {
  RunProcesses(2, [](const RankContext& context) {
    const ProcessGroup group = MustConnect(context);
    std::vector<at::Tensor> data;
    std::vector<c10::intrusive_ptr<c10d::Work>> works;
    for (int i = 0; i < 50; ++i) {
      data.push_back(at::full({1000}, i + context.rank, at::kFloat));
      std::vector<at::Tensor> tensors = {data.back()};
      works.push_back(group->allreduce(tensors));
    }
    const auto future = works.back()->getFuture();
    future->wait();
    EXPECT_FALSE(future->hasError());
    for (int i = 0; i < 50; ++i) {
      works[static_cast<size_t>(i)]->wait();
      EXPECT_TRUE(works[static_cast<size_t>(i)]->isCompleted());
      EXPECT_TRUE(works[static_cast<size_t>(i)]->isSuccess());
      EXPECT_TRUE(at::equal(data[static_cast<size_t>(i)], at::full({1000}, 2 * i + 1, at::kFloat)));
    }
    std::vector<at::Tensor> several = {at::ones({3}), at::ones({4})};
    group->allreduce_coalesced(several)->wait();
    EXPECT_TRUE(at::equal(several[1], at::full({4}, 2.0f)));
  });
}

TEST(CpuGroupTest, SharedTensorsAreZeroedReducedInPlaceAndOutliveTheGroup) {
  RunProcesses(2, [](const RankContext& context) {
    ProcessGroup group = MustConnect(context);
    at::Tensor shared = SharedTensor(group, 500000, at::kFloat);
    ASSERT_EQ(shared.numel(), 500000);
    EXPECT_TRUE(at::equal(shared, at::zeros({500000})));
    auto maps = ReadFile("/proc/self/maps");
    ASSERT_TRUE(maps.ok());
    EXPECT_NE(maps->find(absl::StrCat(absl::Hex(reinterpret_cast<uintptr_t>(shared.data_ptr())), "-")),
              std::string::npos)
        << "not a mapping of its own";
    shared.fill_(context.rank + 1);
    AllReduced(group, shared, c10d::ReduceOp::SUM);
    EXPECT_TRUE(at::equal(shared, at::full({500000}, 3.0f)));
    EXPECT_EQ(SharedTensor(group, 0, at::kLong).numel(), 0);
    group.reset();
    EXPECT_TRUE(at::equal(shared, at::full({500000}, 3.0f)));
  });
}

TEST(CpuGroupTest, AbortThrowsOutOfWaitWithItsReason) {
  RunProcesses(2, [](const RankContext& context) {
    const ProcessGroup group = MustConnect(context);
    if (context.rank == 1) return FolderBootstrap(context.folder).Wait({"end"}).IgnoreError();
    std::vector<at::Tensor> tensors = {at::ones({10})};
    auto work = group->allreduce(tensors);
    std::thread aborter([&] { AbortGroup(group, "generation 3 ended"); });
    try {
      work->wait();
      ADD_FAILURE() << "wait() returned";
    } catch (const c10::DistBackendError& error) {
      EXPECT_THAT(error.what(), AllOf(HasSubstr("generation 3 ended"), Not(HasSubstr("ABORTED"))));
    }
    aborter.join();
    EXPECT_FALSE(work->isSuccess());
    EXPECT_NE(work->exception(), nullptr);
    EXPECT_TRUE(FolderBootstrap(context.folder).Set("end", "1").ok());
  });
}

TEST(CpuGroupTest, InvalidTensorsAreRefusedAtTheCall) {
  auto group = ConnectGroup(GroupMember(), nullptr, at::kCPU);  // a world of one accepts the same tensors
  ASSERT_TRUE(group.ok()) << group.status();
  EXPECT_THROW(AllReduced(*group, at::ones({4, 4}).select(1, 0), c10d::ReduceOp::SUM), c10::Error);
  EXPECT_THROW(AllReduced(*group, at::ones({4}, at::kHalf), c10d::ReduceOp::SUM), c10::Error);
  EXPECT_THROW(AllReduced(*group, at::ones({4}), c10d::ReduceOp::PRODUCT), c10::Error);
  EXPECT_TRUE(at::equal(AllReduced(*group, at::ones({4}), c10d::ReduceOp::SUM), at::ones({4})));
  EXPECT_EQ(SharedTensor(*group, 4, at::kFloat).numel(), 4);
  AbortGroup(*group, "enough");
  EXPECT_THROW(AllReduced(*group, at::ones({4}), c10d::ReduceOp::SUM), c10::DistBackendError);
}

TEST(StoreBootstrapTest, ConnectsAGroupThroughPyTorchsStore) {
  RunProcesses(2, [](const RankContext& context) {
    FolderBootstrap folder(context.folder);
    GroupMember membership;
    membership.rank = context.rank;
    membership.world_size = 2;
    membership.address = "127.0.0.1";
    c10::intrusive_ptr<c10d::Store> server;
    std::shared_ptr<Bootstrap> bootstrap;
    if (context.rank == 0) {
      c10d::TCPStoreOptions options;
      options.port = 0;  // the kernel chooses
      options.isServer = true;
      options.waitWorkers = false;
      auto store = c10::make_intrusive<c10d::TCPStore>("127.0.0.1", options);
      ASSERT_TRUE(folder.Set("port", std::to_string(store->getPort())).ok());
      bootstrap = std::make_shared<StoreBootstrap>(store);
    } else {
      auto port = folder.Wait({"port"});
      ASSERT_TRUE(port.ok());
      auto connected = ConnectTcpStore("127.0.0.1", std::stoi((*port)["port"]), 1, 2, false);
      ASSERT_TRUE(connected.ok()) << connected.status();
      bootstrap = *connected;
    }
    auto group = ConnectGroup(membership, bootstrap, at::kCPU);
    ASSERT_TRUE(group.ok()) << group.status();
    EXPECT_TRUE(at::equal(AllReduced(*group, at::ones({3}), c10d::ReduceOp::SUM), at::full({3}, 2.0f)));
    // An abort ends a wait for a key that never arrives.
    std::thread aborter([&] { bootstrap->Abort("dissolved"); });
    EXPECT_TRUE(absl::IsAborted(bootstrap->Wait({"never"}).status()));
    aborter.join();
    (*group)->barrier()->wait();  // rank 0 serves the store until rank 1 has finished with it
  });
}

TEST(StoreBootstrapTest, UnreachableStoreIsNamed) {
  // A port that is bound, but has no listener.
  const UniqueFd taken(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  ASSERT_EQ(bind(taken.get(), reinterpret_cast<sockaddr*>(&address), size), 0);
  ASSERT_EQ(getsockname(taken.get(), reinterpret_cast<sockaddr*>(&address), &size), 0);
  const int port = ntohs(address.sin_port);
  const auto store = ConnectTcpStore("127.0.0.1", port, 1, 2, false, std::chrono::seconds(1));
  EXPECT_TRUE(absl::IsUnavailable(store.status())) << store.status();
  EXPECT_NE(store.status().message().find(absl::StrCat("127.0.0.1 port ", port)), absl::string_view::npos)
      << store.status();
}

}  // namespace
}  // namespace mtrun::collectives
