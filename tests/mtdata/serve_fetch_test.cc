// The server, the fetcher and the cache as real processes, which recover each other's losses.
#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <random>
#include <thread>

#include "base/data_key.h"
#include "base/posix.h"
#include "datasets/cache/set_client.h"
#include "datasets/packed/index.h"
#include "datasets/packed/packed_writer.h"
#include "tests/mtdata/serve_fetch.h"
#include "web/http_server.h"

namespace mtrun::mtdata {
namespace {

using testing::AllOf;
using testing::HasSubstr;

TEST_F(ServeFetch, SetIsFetchedOnce) {
  const auto server = Serve();
  ExpectCopy(*Fetch());
  ExpectCopy(*Fetch());
  EXPECT_EQ(CountOf(*server, "shard_"), 2u) << server->Text();
  server->Signal(SIGTERM);
  EXPECT_EQ(server->Wait(), 0) << server->Text();
}

TEST_F(ServeFetch, PlainHttpIsForLoopbackOnly) {
  const auto server = Serve({"--plain"});
  ExpectCopy(*Fetch("set", {}, "http"));
  Program beyond({support::BinaryFolder() + "/mtdata", "serve", folder_.File("root"), "--listen", "0.0.0.0:0",
                  "--plain"},
                 Environment());
  EXPECT_EQ(beyond.Wait(), 2);
  EXPECT_THAT(beyond.Text(), HasSubstr("--plain needs a loopback address"));
}

TEST_F(ServeFetch, AnotherTokenIsRefused) {
  const auto server = Serve();
  const auto fetch = Fetch("set", {{"MTRUN_TOKEN", support::kOtherToken}});
  EXPECT_EQ(fetch->Wait(), 1);
  EXPECT_THAT(fetch->Text(), HasSubstr("its token differs from this machine's"));
  EXPECT_FALSE(fs::exists(folder_.File("cache/sources")));
}

TEST_F(ServeFetch, KeyAloneReadsASet) {
  const auto server = Serve();
  Program printed({support::BinaryFolder() + "/mtdata", "key"}, Environment());
  ASSERT_EQ(printed.Wait(), 0) << printed.Text();
  const support::Overlay alone = {
      {"MTRUN_TOKEN", std::nullopt}, {"HOME", folder_.path()}, {"MTRUN_DATA_KEY", printed.OutLines().at(0)}};
  ExpectCopy(*Fetch("set", alone));
}

/// Server and client of earlier versions derived the server's identity from the client's secret.
TEST_F(ServeFetch, HolderOfADataKeyCannotImpersonateTheServer) {
  const auto identity = DeriveIdentity(ReadingSecretOf(support::kToken));
  ASSERT_TRUE(identity.ok()) << identity.status();
  auto tls = web::MakeTlsContext(identity->certificate, identity->private_key);
  ASSERT_TRUE(tls.ok()) << tls.status();
  std::atomic<int> asked = 0;
  const auto impostor =
      web::HttpServer::Start("127.0.0.1", port_,
                             {.routes = {{"GET", web::kEveryPath,
                                          [&](const web::Request&, const web::Reply& reply) {
                                            ++asked;
                                            reply(web::StatusResponse(503));
                                          }}},
                              .tls = *tls});
  ASSERT_TRUE(impostor.ok()) << impostor.status();
  const auto fetch = Fetch();
  EXPECT_EQ(fetch->Wait(), 1);
  EXPECT_THAT(fetch->Text(), HasSubstr("the server's certificate is not trusted"));
  EXPECT_EQ(asked.load(), 0) << "it saw a bearer";
}

/// The token is in a file that only mtrun was told of.
TEST_F(ServeFetch, ProgramOfAJobGetsTheKeyFromItsAgent) {
  const auto server = Serve();
  support::WriteText(folder_.File("token"), support::kToken);
  fs::permissions(folder_.File("token"), fs::perms::owner_read);
  support::Overlay environment = Environment();
  environment["MTRUN_TOKEN"] = std::nullopt;
  environment["HOME"] = folder_.path();
  Program job({support::BinaryFolder() + "/mtrun", "--standalone", "--token_file", folder_.File("token"),
               "--no_python", support::BinaryFolder() + "/mtdata", "fetch",
               absl::StrCat("https://127.0.0.1:", port_, "/set"), "--cache", folder_.File("cache")},
              environment);
  EXPECT_EQ(job.Wait(), 0) << job.Text();
  EXPECT_THAT(job.Text(), HasSubstr("the SHA-256 of every shard is correct"));
}

TEST_F(ServeFetch, RightServerIsTrustedAfterAnotherOneAtItsPort) {
  auto server = Serve({}, {{"MTRUN_TOKEN", support::kOtherToken}});
  const auto refused = Fetch();
  EXPECT_EQ(refused->Wait(), 1);
  EXPECT_THAT(refused->Text(), HasSubstr("the server's certificate is not trusted"));
  ASSERT_EQ(Fetchers().size(), 1u) << "it stays for a while";
  server.reset();
  server = Serve();
  ExpectCopy(*Fetch());
}

TEST_F(ServeFetch, UrlPrintedByTheServerWorksForAnyFolderName) {
  const std::string name = "50% of my set? #1";
  fs::create_directories(folder_.File("root/a b"));
  fs::rename(folder_.File("root/set"), folder_.File("root/a b/" + name));
  const auto server = Serve();
  const std::string before = "use one with: --data https://127.0.0.1:" + absl::StrCat(port_, "/");
  ASSERT_TRUE(server->WaitForLine(before)) << server->Text();
  std::string line;
  for (const std::string& one : server->OutLines()) line = one.starts_with(before) ? one : line;
  const auto fetch = Fetch(line.substr(before.size()));
  ASSERT_EQ(fetch->Wait(), 0) << line << "\n" << fetch->Text();
  EXPECT_TRUE(fs::exists(fetch->OutLines().at(0) + "/train/shard_00000.safetensors"));
}

TEST_F(ServeFetch, ErrorNamesAMissingSet) {
  const auto server = Serve();
  const auto fetch = Fetch("nothing");
  EXPECT_EQ(fetch->Wait(), 1);
  EXPECT_THAT(fetch->Text(), HasSubstr("/nothing/index.json does not exist (HTTP 404)"));
}

TEST_F(ServeFetch, LateServerIsAwaited) {
  const auto fetch = Fetch();
  ASSERT_TRUE(fetch->WaitForLine("waiting: ")) << fetch->Text();
  const auto server = Serve();
  ExpectCopy(*fetch);
}

TEST_F(ServeFetch, KilledFetcherIsRestarted) {
  const auto fetch = Fetch();
  ASSERT_TRUE(fetch->WaitForLine("waiting: ")) << fetch->Text();
  const std::vector<pid_t> fetchers = Fetchers();
  ASSERT_EQ(fetchers.size(), 1u);
  kill(fetchers[0], SIGKILL);
  const auto server = Serve();
  ExpectCopy(*fetch);
}

TEST_F(ServeFetch, ReportsWhyNoFetcherCanRun) {
  const auto server = Serve();
  for (const std::string kind : {"lock", "sock"}) {
    const std::string file = folder_.File("cache/" + datasets::FetcherFile(kind));
    fs::create_directories(file + "/folder");
    const auto fetch = Fetch();
    const auto said = fetch->WaitForLine("waiting: the fetcher exits at once: ");
    EXPECT_THAT(said.value_or("nothing is said"),
                AllOf(HasSubstr(kind == "lock" ? ".lock: Is a directory" : ".sock: Address already in use"),
                      HasSubstr(folder_.File("cache/" + datasets::FetcherFile("log")))));
    fs::remove_all(file);
    ExpectCopy(*fetch);
    EXPECT_EQ(CountOf(*fetch, "exits at once"), 1u) << fetch->Text();
    for (const pid_t pid : Fetchers()) kill(pid, SIGKILL);
    fs::remove_all(folder_.File("cache"));
  }
}

TEST_F(ServeFetch, ErrorNamesAnMtdataThatCannotFetch) {
  const std::string old = folder_.File("old");
  fs::create_directories(old);
  support::WriteText(old + "/mtdata", "#!/bin/sh\necho 'mtdata: unknown command' >&2\necho hint\nexit 2\n",
                     true);
  datasets::SetClient client({.cache = folder_.File("cache"),
                              .open = {.url = "https://127.0.0.1/set"},
                              .fetcher = {old + "/mtdata", "fetch", "--node"}});
  std::string trouble;
  const absl::Status opened = client.Open([&](const datasets::SetClient::Wait& wait) {
    trouble = wait.trouble;
    return trouble.empty() && wait.waited < std::chrono::seconds(5) ? absl::OkStatus()
                                                                    : absl::CancelledError("seen");
  });
  EXPECT_TRUE(absl::IsCancelled(opened)) << opened;
  EXPECT_THAT(trouble, HasSubstr("the fetcher exits at once: unknown command ("));
}

/// Here the test holds the lock; it can also be a machine of the same name, or a fetcher without socket.
TEST_F(ServeFetch, ErrorNamesAnUnreachableFetcher) {
  fs::create_directories(folder_.File("cache"));
  const std::string lock = folder_.File("cache/" + datasets::FetcherFile("lock"));
  const UniqueFd held(open(lock.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  ASSERT_EQ(flock(held.get(), LOCK_EX | LOCK_NB), 0);
  datasets::SetClient client({.cache = folder_.File("cache"),
                              .open = {.url = "https://127.0.0.1/set"},
                              .fetcher = {support::BinaryFolder() + "/mtdata", "fetch", "--node"}});
  std::string trouble;
  const absl::Status opened = client.Open([&](const datasets::SetClient::Wait& wait) {
    trouble = wait.trouble;
    return trouble.empty() && wait.waited < support::kPatience ? absl::OkStatus()
                                                               : absl::CancelledError("seen");
  });
  EXPECT_TRUE(absl::IsCancelled(opened)) << opened;
  EXPECT_THAT(trouble,
              AllOf(HasSubstr(lock), HasSubstr(datasets::FetcherFile("sock")), HasSubstr("--cache")));
}

TEST_F(ServeFetch, SetWithMoreShardsThanTheFileLimitIsRefused) {
  constexpr int kImages = 60;
  const auto writer = datasets::PackedWriter::Create(
      folder_.File("root/many"), {.height = 1, .width = 1, .classes = {"a"}, .splits = {{"train", kImages}}},
      {.shard_bytes = 11});
  ASSERT_TRUE(writer.ok()) << writer.status();
  ASSERT_TRUE((*writer)
                  ->Put("train", 0, std::vector<int64_t>(kImages, 0), std::vector<uint8_t>(3 * kImages, 7))
                  .ok());
  ASSERT_TRUE((*writer)->Finish().ok());
  const auto server = Serve();
  const auto fetch = std::make_unique<Program>(
      std::vector<std::string>{
          "sh", "-c", "ulimit -n 40 && exec \"$@\"", "sh", support::BinaryFolder() + "/mtdata", "fetch",
          absl::StrCat("https://127.0.0.1:", port_, "/many"), "--cache", folder_.File("cache")},
      Environment());
  EXPECT_EQ(fetch->Wait(), 1);
  EXPECT_THAT(fetch->Text(), AllOf(HasSubstr("/many has 60 shards"), HasSubstr("raise the hard limit")));
  EXPECT_EQ(Fetch("many")->Wait(), 0);
}

TEST_F(ServeFetch, ErrorNamesAShardDamagedOnTheServer) {
  const auto server = Serve();
  std::fstream(Shard()).seekp(5000).write("damage", 6);
  const auto fetch = Fetch();
  EXPECT_EQ(fetch->Wait(), 1);
  EXPECT_THAT(fetch->Text(),
              HasSubstr("train/shard_00000.safetensors was received 2 times and never matched"));
}

TEST_F(ServeFetch, ErrorNamesAnEndlessIndex) {
  const auto server = Serve();
  fs::resize_file(folder_.File("root/set/index.json"), 257 << 20);
  const auto fetch = Fetch();
  EXPECT_EQ(fetch->Wait(), 1);
  EXPECT_THAT(fetch->Text(),
              HasSubstr("/set/index.json is larger than 256 MiB, so it is not the index of a data set"));
}

// Here a folder has taken its path; a full disk has the same effect.
TEST_F(ServeFetch, ReportsWhyAShardCannotBePutInPlace) {
  const auto server = Serve();
  const auto index = datasets::ReadIndex(folder_.File("root/set"));
  ASSERT_TRUE(index.ok()) << index.status();
  const std::string place =
      folder_.File("cache/" + datasets::IndexDigest(*index) + "/train/shard_00000.safetensors");
  fs::create_directories(place + "/folder");
  support::WriteText(place + ".part." + HostName(), "");
  const auto fetch = Fetch();
  const auto said = fetch->WaitForLine("waiting: ");
  EXPECT_THAT(said.value_or(fetch->Text()), HasSubstr("Is a directory; it will be tried again"));
  fs::remove_all(place);
  ExpectCopy(*fetch);
}

TEST_F(ServeFetch, DamagedCopyIsFetchedAgain) {
  const auto server = Serve();
  ExpectCopy(*Fetch());
  std::fstream(CachedShard()).seekp(5000).write("damage", 6);
  ExpectCopy(*Fetch());
  fs::resize_file(CachedShard(), 100);  // continue a shorter file, and restart it if that fails
  ExpectCopy(*Fetch());
}

TEST_F(ServeFetch, CachedSetNeedsNoServer) {
  auto server = Serve();
  ExpectCopy(*Fetch());
  server.reset();
  const auto again = Fetch();
  ExpectCopy(*again);
}

TEST_F(ServeFetch, SetAboveTheBoundIsRefused) {
  const auto server = Serve();
  const auto fetch = Fetch("set", {}, "https", {"--cache_gib", "0.0001"});
  EXPECT_EQ(fetch->Wait(), 2);
  EXPECT_THAT(fetch->Text(), HasSubstr("--cache_gib"));
}

/// Random failures of a cache, its fetcher and its server.
class Storm : public ServeFetch {
 protected:
  void Strike(std::mt19937_64& random, std::unique_ptr<Program>& server) {
    const std::vector<datasets::CachedFile> files = datasets::CachedFiles(folder_.File("cache"));
    const std::string victim = files.empty() ? "" : files[random() % files.size()].path;
    switch (random() % 5) {
      case 0:
        server->Signal(SIGKILL);
        server->Wait();
        server = Serve();
        break;
      case 1:
        for (const pid_t pid : Fetchers()) kill(pid, SIGKILL);
        break;
      case 2:
        if (!victim.empty()) std::fstream(victim).seekp(100).write("damage", 6);
        break;
      case 3:
        if (!victim.empty()) truncate(victim.c_str(), 50);
        break;
      default:
        if (!victim.empty()) unlink(victim.c_str());
        break;
    }
  }
};

TEST_F(Storm, LongEveryCopyIsWholeAfterOneHundredFaults) {
  const char* given = std::getenv("MTRUN_SEED");
  const uint64_t seed = given != nullptr ? std::strtoull(given, nullptr, 10) : std::random_device{}();
  std::cout << "MTRUN_SEED=" << seed << std::endl;
  std::mt19937_64 random(seed);
  auto server = Serve();
  for (int round = 0; round < 25; ++round) {
    const auto fetch = Fetch();
    for (int fault = 0; fault < 4; ++fault) {
      std::this_thread::sleep_for(std::chrono::milliseconds(random() % 60));
      Strike(random, server);
    }
    ASSERT_EQ(fetch->Wait(), 0) << fetch->Text();
    ExpectCopy(*Fetch());  // damage that the first one did not notice is repaired by the next
    if (HasFailure()) return;
  }
}

}  // namespace
}  // namespace mtrun::mtdata
