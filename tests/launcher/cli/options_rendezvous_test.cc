// Rendezvous options: backends, endpoints, the job's id, --rdzv_conf.
#include <chrono>
#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/launcher/cli/parse_line.h"

namespace mtrun::launcher {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

TEST(OptionsTest, EndpointIsReadFromEndpointOrMaster) {
  EXPECT_EQ(Parse("--nnodes 2 --rdzv_endpoint node0 x")->endpoint, "node0:29400");
  EXPECT_EQ(Parse("--nnodes 2 --master_addr node0 --master_port 77 x")->endpoint, "node0:77");
  EXPECT_EQ(Parse("--nnodes 2 --master_addr node0 x")->endpoint, "node0:29500");
  EXPECT_TRUE(Parse("--nnodes 2 --master_addr node0 x")->meets_at_master_port);
  EXPECT_TRUE(Parse("--nnodes 2 --rdzv_backend static --rdzv_endpoint node0:77 x")->meets_at_master_port);
  EXPECT_TRUE(Parse("--nnodes 2 x")->meets_at_master_port);
  EXPECT_FALSE(Parse("--nnodes 2 --rdzv_endpoint node0:77 x")->meets_at_master_port);
  EXPECT_EQ(Parse("--standalone --rdzv_endpoint node0:1 x")->endpoint, "127.0.0.1:0");
  // Defaults of torchrun's static backend.
  for (const char* line : {"--nnodes 2 x", "--nnodes 2 --rdzv_backend static x"}) {
    EXPECT_EQ(Parse(line)->endpoint, "127.0.0.1:29500");
    EXPECT_THAT(Parse(line)->notes, ElementsAre(HasSubstr("need --master_addr")));
  }
  EXPECT_THAT(ErrorOf("--nnodes 2 --rdzv_backend c10d x"),
              AllOf(HasSubstr("--nnodes"), HasSubstr("--rdzv_endpoint")));
  EXPECT_THAT(ErrorOf("--nnodes 2 --rdzv_endpoint node0:x x"),
              AllOf(HasSubstr("--rdzv_endpoint"), HasSubstr("port")));
  EXPECT_THAT(ErrorOf("--nnodes 2 --rdzv_endpoint node0:0 x"), HasSubstr("1 to 65535"));
  for (const char* list : {"a:0,b:1", "a:1,b:0", "a,b:0"}) {
    EXPECT_THAT(ErrorOf(absl::StrCat("--nnodes 2 --rdzv_endpoint ", list, " x")),
                HasSubstr("ports from 1 to 65535 in a list of endpoints"))
        << list;
  }
  EXPECT_THAT(ErrorOf("--standalone --nnodes 2 x"), HasSubstr("--standalone"));
}

TEST(OptionsTest, OneNodeNeedsNoRendezvous) {
  const auto plain = Parse("--master_addr nowhere --master_port 777 --node_rank 0 x");
  ASSERT_TRUE(plain.ok()) << plain.status();
  EXPECT_TRUE(plain->standalone);
  EXPECT_EQ(plain->master_port, 777);
  EXPECT_EQ(plain->master_addr, "nowhere");
  EXPECT_EQ(plain->job.heartbeat_interval, std::chrono::hours(1));
  EXPECT_EQ(Parse("--rdzv_conf keep_alive_interval=0.1 x")->job.heartbeat_interval,
            std::chrono::milliseconds(100));
  EXPECT_EQ(Parse("--rdzv_endpoint node0:77 x")->standalone, false);
  EXPECT_TRUE(Parse("--rdzv_endpoint= x")->standalone);
  const auto elastic = Parse("--standalone --nnodes 1:4 x");
  ASSERT_TRUE(elastic.ok()) << elastic.status();
  EXPECT_EQ(elastic->job.max_nodes, 1);
  EXPECT_THAT(elastic->notes, ElementsAre(HasSubstr("--nnodes 1:4")));
}

TEST(OptionsTest, HostListensOnEveryAddressThatTheTokenProtects) {
  EXPECT_TRUE(Parse("--nnodes 2 x")->serves_all);
  EXPECT_TRUE(Parse("--nnodes 1:2 --rdzv_endpoint localhost:29400 x")->serves_all);
  EXPECT_FALSE(Parse("--nnodes 2 --rdzv_endpoint localhost:29400 --insecure x")->serves_all);
  EXPECT_TRUE(Parse("--nnodes 2 --rdzv_endpoint node0:29400 --insecure x")->serves_all);
  EXPECT_FALSE(Parse("--rdzv_endpoint localhost:29400 x")->serves_all);
  EXPECT_FALSE(Parse("--standalone --http 8080 x")->serves_all);
  // Told every address, the node itself uses loopback.
  for (const char* insecure : {"", "--insecure "}) {
    const auto every = Parse(absl::StrCat("--nnodes 2 --rdzv_endpoint 0.0.0.0:77 ", insecure, "x"));
    ASSERT_TRUE(every.ok()) << every.status();
    EXPECT_EQ(every->endpoint, "127.0.0.1:77");
    EXPECT_TRUE(every->serves_all);
  }
  EXPECT_EQ(Parse("--nnodes 2 --rdzv_endpoint [::]:77 x")->endpoint, "localhost:77");
}

TEST(OptionsTest, LinkLocalEndpointNeedsTheInterface) {
  EXPECT_EQ(Parse("--nnodes 2 --rdzv_endpoint [fe80::1%eth0]:77 x")->endpoint, "[fe80::1%eth0]:77");
  for (const char* line :
       {"--nnodes 2 --rdzv_endpoint [fe80::1]:77 x", "--nnodes 2 --master_addr fe80::1 x",
        "--rdzv_endpoint [fe80::1]:77,node1:77 x", "--status [fe80::1]:77", "--http [fe80::1] x"})
    EXPECT_THAT(ErrorOf(line), HasSubstr("as in [fe80::1%eth0]:")) << line;
}

TEST(OptionsTest, MasterPortOfAStaticJobIsTheOneGiven) {
  const auto master_port = [](const std::string& line) {
    return Parse("--nnodes 2 " + line + " x")->MasterPort(/*hosted=*/29500, /*held=*/4711);
  };
  EXPECT_EQ(master_port("--master_addr node0 --master_port 29500"), 29500);
  EXPECT_EQ(master_port("--rdzv_backend static --rdzv_endpoint node0:29500"), 29500);
  EXPECT_EQ(master_port("--rdzv_backend c10d --rdzv_endpoint node0:29500"), 4711);
  EXPECT_EQ(master_port("--master_addr node0 --store rank0"), 4711) << "the rendezvous has the other";
  EXPECT_EQ(Parse("--nnodes 2 --master_addr node0 x")->MasterPort(0, 4711), 4711) << "hosted elsewhere";
}

/// torchrun's documented line for several jobs on a machine.
TEST(OptionsTest, EndpointOfPortZeroIsAJobOfItsOwn) {
  for (const char* endpoint : {"localhost:0", "127.0.0.1:0", "[::1]:0", "node0:0"}) {
    const auto own = Parse(absl::StrCat("--rdzv_backend c10d --rdzv_endpoint ", endpoint,
                                        " --master_addr node0 --master_port 29500 x"));
    ASSERT_TRUE(own.ok()) << own.status();
    EXPECT_TRUE(own->standalone) << endpoint;
    EXPECT_EQ(own->endpoint, "127.0.0.1:0");
    EXPECT_EQ(own->master_port, 0);  // as under torchrun: the jobs of a sweep do not compete for it
    EXPECT_EQ(own->master_addr, "");
  }
  const auto elastic = Parse("--nnodes 1:4 --rdzv_endpoint localhost:0 x");
  ASSERT_TRUE(elastic.ok()) << elastic.status();
  EXPECT_TRUE(elastic->standalone);
  EXPECT_EQ(elastic->job.max_nodes, 1);
  EXPECT_THAT(elastic->notes, ElementsAre(HasSubstr("--rdzv_endpoint localhost:0 runs this node alone")));
  const auto page = Parse("--rdzv_endpoint localhost:0 --http 127.0.0.1:8080 x");
  ASSERT_TRUE(page.ok()) << page.status();
  EXPECT_EQ(page->endpoint, "127.0.0.1:0");
  EXPECT_EQ(page->is_host, true);
  EXPECT_THAT(ErrorOf("--nnodes 2 --rdzv_endpoint localhost:0 x"), HasSubstr("for a single node"));
}

TEST(OptionsTest, TorchrunsBackendsMeanMtrunsOwnService) {
  EXPECT_EQ(Parse("--rdzv_backend c10d --nnodes 2 --rdzv_endpoint a x")->endpoint, "a:29400");
  const auto fixed = Parse("--rdzv-backend=static --nnodes 1:3 --rdzv_endpoint a x");
  ASSERT_TRUE(fixed.ok()) << fixed.status();
  EXPECT_EQ(fixed->job.min_nodes, 3);
  EXPECT_THAT(fixed->notes, ElementsAre(HasSubstr("exactly 3 nodes")));
  const auto etcd = Parse("--rdzv_backend etcd-v2 --nnodes 2 --rdzv_endpoint a --rdzv_conf protocol=http x");
  ASSERT_TRUE(etcd.ok()) << etcd.status();
  EXPECT_TRUE(etcd->may_be_etcd);
  EXPECT_EQ(etcd->endpoint, "a:2379");
  EXPECT_EQ(Parse("--rdzv_backend etcd --nnodes 2 --rdzv_endpoint a:29400 x")->endpoint, "a:29400");
  EXPECT_THAT(ErrorOf("--rdzv_backend zeus x"),
              AllOf(HasSubstr("\"zeus\""), HasSubstr("--rdzv_backend c10d")));
  EXPECT_THAT(Parse("--rdzv_conf protocol=http x")->notes,
              ElementsAre(HasSubstr("unknown key \"protocol\"")));
}

TEST(OptionsTest, IdInAnyLanguageIsValidUnlessItCannotBeSent) {
  const std::string id = "t\xC3\xA4st-\xE5\xAE\x9E\xE9\xAA\x8C";
  EXPECT_EQ(Parse("--rdzv_id " + id + " x")->job.job_id, id);
  for (const std::string& wrong : {std::string("t\xE4st"), std::string(257, 'x'), std::string("\x1b[2J")}) {
    EXPECT_THAT(ErrorOf("--rdzv_id " + wrong + " x"), AllOf(HasSubstr("--rdzv_id"), HasSubstr("UTF-8")));
    EXPECT_THAT(ErrorOf("--stop node0:1 --rdzv_id " + wrong), HasSubstr("--rdzv_id"));
  }
}

TEST(OptionsTest, ServiceGetsAtMost8000HeartbeatsPerSecond) {
  using std::chrono::milliseconds;
  const auto interval = [](const std::string& line) {
    return Parse("--rdzv_endpoint a " + line + " x")->job.heartbeat_interval;
  };
  EXPECT_EQ(interval("--nnodes 1:4000"), milliseconds(500));
  EXPECT_EQ(interval("--nnodes 1:10000"), milliseconds(1250));
  EXPECT_EQ(interval("--nnodes 10000 --rdzv_conf keep_alive_interval=0.5"), milliseconds(500));
  EXPECT_EQ(
      Parse("--rdzv_endpoint a --nnodes 10000 --rdzv_conf keep_alive_max_attempt=20 x")->job.fence_timeout,
      std::chrono::seconds(50));
}

TEST(OptionsTest, OrdinaryProgramsHaveTorchrunsKeepAlive) {
  using std::chrono::seconds;
  const auto lost_after = [](const std::string& line) {
    return Parse("--rdzv_endpoint a " + line + " x")->job.OrdinaryLostAfter();
  };
  EXPECT_EQ(lost_after(""), seconds(15));
  EXPECT_EQ(lost_after("--rdzv_conf keep_alive_max_attempt=4"), seconds(20));
  EXPECT_EQ(lost_after("--rdzv_conf keep_alive_interval=0.5"), std::chrono::milliseconds(1500));
  EXPECT_EQ(lost_after("--rdzv_conf keep_alive_interval=2,keep_alive_max_attempt=2"), seconds(4));
  EXPECT_EQ(Parse("--rdzv_endpoint a x")->job.LostAfter(), std::chrono::milliseconds(1500));
}

TEST(OptionsTest, LeaseExceedsTheSilenceThatLosesANode) {
  using std::chrono::seconds;
  EXPECT_EQ(Parse("--rdzv_endpoint a x")->job.fence_timeout, seconds(30));
  EXPECT_EQ(Parse("--rdzv_endpoint a --rdzv_conf keep_alive_interval=20 x")->job.fence_timeout, seconds(120));
  EXPECT_EQ(
      Parse("--rdzv_endpoint a --rdzv_conf keep_alive_interval=20,fence_timeout=61 x")->job.fence_timeout,
      seconds(61));
  EXPECT_EQ(Parse("--rdzv_endpoint a --rdzv_conf fence_timeout=never x")->job.fence_timeout,
            Duration::zero());
  EXPECT_THAT(ErrorOf("--rdzv_endpoint a --rdzv_conf fence_timeout=1.5 x"),
              AllOf(HasSubstr("fence_timeout is 1.5 s"), HasSubstr("only after 1.5 s")));
  EXPECT_TRUE(Parse("--standalone --rdzv_conf fence_timeout=1 x").ok());
}

TEST(OptionsTest, ColdStartWaitIsShorterThanTheJoinTimeout) {
  EXPECT_EQ(Parse("--rdzv_endpoint a --rdzv_conf cold_start_wait=300 x")->job.cold_start_wait,
            std::chrono::minutes(5));
  EXPECT_THAT(ErrorOf("--rdzv_endpoint a --rdzv_conf cold_start_wait=600 x"),
              AllOf(HasSubstr("cold_start_wait is 10 min"), HasSubstr("give a longer join_timeout")));
  EXPECT_TRUE(Parse("--rdzv_endpoint a --rdzv_conf cold_start_wait=600,join_timeout=900 x").ok());
}

TEST(OptionsTest, ConfAcceptsFractionsAndErrorsNameTheKey) {
  const auto options = Parse(
      "--rdzv_conf "
      "join_timeout=0.5,last_call_timeout=0,keep_alive_interval=0.25,keep_alive_max_attempt=4,is_host=true,"
      "reconnect_timeout=7,timeout=900,close_timeout=3,heartbeat_timeout=0.5,cas_backoff_max_seconds=0,read_"
      "timeout=90,store_type=tcp "
      "x");
  ASSERT_TRUE(options.ok()) << options.status();
  EXPECT_EQ(options->job.join_timeout, std::chrono::milliseconds(500));
  EXPECT_EQ(options->job.last_call, Duration::zero());
  EXPECT_EQ(options->job.heartbeat_interval, std::chrono::milliseconds(250));
  EXPECT_EQ(options->job.heartbeats_missed, 4);
  EXPECT_EQ(options->is_host, true);
  EXPECT_EQ(options->reconnect_timeout, std::chrono::seconds(7));
  EXPECT_EQ(options->connect_timeout, std::chrono::seconds(90));
  EXPECT_EQ(Parse("--rdzv_conf join_timeout=5 x")->connect_timeout, std::chrono::seconds(5));
  EXPECT_EQ(Parse("--rdzv_backend static --rdzv_conf timeout=5 x")->job.join_timeout,
            std::chrono::seconds(5));
  EXPECT_THAT(ErrorOf("--rdzv_conf store_type=file x"),
              AllOf(HasSubstr("store_type=\"file\""), HasSubstr("--rdzv_backend c10d --rdzv_endpoint")));
  EXPECT_THAT(ErrorOf("--rdzv_conf close_timeout=-1 x"), HasSubstr("close_timeout"));
  EXPECT_THAT(ErrorOf("--rdzv_conf cas_backoff_max_seconds=-1 x"), HasSubstr("cas_backoff_max_seconds"));
  EXPECT_FALSE(Parse("--rdzv_id= x")->run_id_given);
  EXPECT_EQ(Parse("--rdzv_id= x")->job.job_id, "none");
  EXPECT_THAT(Parse("--rdzv_conf join_timout=3 x")->notes,
              ElementsAre(AllOf(HasSubstr("--rdzv_conf"), HasSubstr("did you mean join_timeout?"))));
  EXPECT_THAT(ErrorOf("--rdzv_conf join_timeout=soon x"),
              AllOf(HasSubstr("join_timeout"), HasSubstr("soon")));
  EXPECT_THAT(ErrorOf("--rdzv_conf join_timeout=0 x"), HasSubstr("more than 0"));
  EXPECT_THAT(ErrorOf("--rdzv_conf =3 x"), HasSubstr("KEY=VALUE"));
  EXPECT_THAT(ErrorOf("--rdzv_conf is_host=perhaps x"), HasSubstr("true or false"));
}

}  // namespace
}  // namespace mtrun::launcher
