// The client against a third-party web server with a packed folder: nginx, which checks the bearer token
// itself, answers ranges, sends slowly, and has moved the set to another place.
#include <signal.h>

#include <filesystem>
#include <thread>

#include "base/posix.h"
#include "tests/mtdata/serve_fetch.h"

namespace mtrun::mtdata {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

constexpr char kNginx[] = "/usr/sbin/nginx";

class NginxFetch : public ServeFetch {
 protected:
  void SetUp() override {
    if (!fs::exists(kNginx)) GTEST_SKIP() << "no nginx here";
    support::WriteText(folder_.File("bearer"), "opens-the-set\n");
    fs::permissions(folder_.path(), fs::perms::owner_all | fs::perms::group_exec | fs::perms::others_exec);
    Program certificate({"openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256",
                         "-nodes", "-days", "2", "-subj", "/CN=localhost", "-addext",
                         "subjectAltName=IP:127.0.0.1", "-keyout", folder_.File("key.pem"), "-out",
                         folder_.File("cert.pem")});
    ASSERT_EQ(certificate.Wait(), 0) << certificate.Text();
  }

  /// `rate`: limit per connection in nginx's syntax; 0: none.
  std::unique_ptr<Program> Nginx(const std::string& rate = "0") {
    const std::string& work = folder_.path();
    std::string temporary;
    for (const char* kind : {"client_body", "proxy", "fastcgi", "uwsgi", "scgi"})
      absl::StrAppend(&temporary, kind, "_temp_path ", work, "/", kind, "; ");
    support::WriteText(
        folder_.File("nginx.conf"),
        absl::StrCat("daemon off; master_process off; pid ", work, "/nginx.pid;\n",
                     getuid() == 0 ? "user root;\n" : "", "events { worker_connections 256; }\nhttp { ",
                     temporary, "\naccess_log ", work, "/access.log;\nserver { listen 127.0.0.1:", port_,
                     " ssl; ssl_certificate ", work, "/cert.pem; ssl_certificate_key ", work,
                     "/key.pem; root ", work, "/root;\n",
                     "location /set/ { if ($http_authorization != \"Bearer opens-the-set\") { return 401; } ",
                     "limit_rate ", rate, "; }\n",
                     "location /moved/ { rewrite ^/moved/(.*)$ /set/$1 redirect; }\n",
                     "location /away/ { return 302 https://localhost:", port_, "/set/; }\n} }\n"));
    auto nginx = std::make_unique<Program>(
        std::vector<std::string>{kNginx, "-c", folder_.File("nginx.conf"), "-e", folder_.File("error.log")},
        Environment());
    for (int i = 0; i < 600 && support::ListeningSockets(nginx->pid()) == 0; ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    EXPECT_GT(support::ListeningSockets(nginx->pid()), 0) << support::ReadText(folder_.File("error.log"));
    return nginx;
  }
  std::unique_ptr<Program> FetchFromNginx(const std::string& name, const std::string& bearer = "bearer") {
    return Fetch(name, {{"SSL_CERT_FILE", folder_.File("cert.pem")}, {"CURL_CA_BUNDLE", std::nullopt}},
                 "https", {"--data_bearer_file", folder_.File(bearer)});
  }
  std::string AccessLog() const { return support::ReadText(folder_.File("access.log")); }
};

TEST_F(NginxFetch, LongSetIsFetched) {
  const auto nginx = Nginx();
  ExpectCopy(*FetchFromNginx("set"));
}

TEST_F(NginxFetch, LongMovedSetIsFetchedFromItsNewPlace) {
  const auto nginx = Nginx();
  ExpectCopy(*FetchFromNginx("moved"));
  EXPECT_THAT(AccessLog(), AllOf(HasSubstr("\"GET /moved/train/shard_00000.safetensors HTTP/1.1\" 302 "),
                                 HasSubstr("\"GET /set/train/shard_00000.safetensors HTTP/1.1\" 200 ")));
}

TEST_F(NginxFetch, LongOtherHostNameIsNotContacted) {
  const auto nginx = Nginx();
  const auto fetch = FetchFromNginx("away");
  EXPECT_EQ(fetch->Wait(), 1);
  EXPECT_THAT(fetch->Text(),
              HasSubstr("only the host that was given is contacted (--data_redirects allows others)"));
  EXPECT_THAT(AccessLog(), Not(HasSubstr("GET /set/")));
}

TEST_F(NginxFetch, LongAnotherBearerIsRefused) {
  support::WriteText(folder_.File("other"), "opens-another\n");
  const auto nginx = Nginx();
  const auto fetch = FetchFromNginx("set", "other");
  EXPECT_EQ(fetch->Wait(), 1);
  EXPECT_THAT(fetch->Text(), AllOf(HasSubstr("is refused (HTTP 401)"), HasSubstr("--data_bearer_file")));
}

TEST_F(NginxFetch, LongCertificateUnknownToTheSystemIsNotTrusted) {
  const auto nginx = Nginx();
  const auto fetch = Fetch("set", {}, "https", {"--data_bearer_file", folder_.File("bearer")});
  EXPECT_EQ(fetch->Wait(), 1);
  EXPECT_THAT(fetch->Text(), HasSubstr("the server's certificate is not trusted"));
  EXPECT_EQ(AccessLog(), "");
}

/// After a fetcher and a server were killed in the middle of a shard, the next ones continue there.
TEST_F(NginxFetch, LongReceivedBytesAreNotRequestedAgain) {
  auto nginx = Nginx("300k");  // 4 s for the train split
  const auto fetch = FetchFromNginx("set");
  const auto has_begun = [&] {
    const std::string path = CachedShard();
    std::error_code gone;
    return path.find(".part.") != std::string::npos && fs::file_size(path, gone) > 0 && !gone;
  };
  while (!has_begun()) ASSERT_FALSE(fetch->Wait(support::Seconds(0.02))) << fetch->Text();
  for (const pid_t pid : Fetchers()) kill(pid, SIGKILL);
  const auto ranges = [&] { return AccessLog().find("shard_00000.safetensors HTTP/1.1\" 206 "); };
  nginx->Signal(SIGTERM);  // nginx logs a range request when it ends
  ASSERT_TRUE(nginx->Wait()) << nginx->Text();
  nginx = Nginx();
  ExpectCopy(*fetch);
  EXPECT_NE(ranges(), std::string::npos) << AccessLog();
}

}  // namespace
}  // namespace mtrun::mtdata
