// mtdata serve: a server of packed sets.
#include <signal.h>

#include <algorithm>
#include <iostream>
#include <thread>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "base/data_key.h"
#include "base/endpoint.h"
#include "base/file_limit.h"
#include "base/log.h"
#include "base/settings.h"
#include "base/status_macros.h"
#include "base/tls_identity.h"
#include "base/token.h"
#include "datasets/packed/data_url.h"
#include "mtdata/commands.h"
#include "mtdata/set_server.h"
#include "mtdata/set_table.h"

namespace mtrun::mtdata {
namespace {

constexpr int kMaxThreads = 8;

std::vector<SettingSpec> ServeSpecs() {
  const int cores = static_cast<int>(std::thread::hardware_concurrency());
  SettingSpec threads = NumberSpec("threads", std::clamp(cores, 1, kMaxThreads), 1, 64, "Server threads.");
  threads.otherwise = "all processors, at most 8";
  return {
      TextSpec("listen", "HOST:PORT",
               "Address to listen on: one of this machine, or * for all; port 0 for any free one."),
      {.name = "token_file",
       .help = "File with the cluster's token.",
       .value = "FILE",
       .otherwise = "$MTRUN_TOKEN, else ~/.mtrun/token"},
      SwitchSpec("plain", "false",
                 "Serve without TLS, to clients on this machine only; --listen must be a loopback address."),
      SwitchSpec("access_log", "true", "Log a line for each response to standard error."),
      threads,
      NumberSpec("connections", 4096, 1, 100'000,
                 "Maximum number of connections; beyond it the one idle longest is closed."),
      NumberSpec("grace", 10, 0, 3600,
                 "Seconds that responses in progress may take after SIGTERM or SIGINT.")};
}

struct Place {
  std::string shown;    // as shown in URLs
  std::string address;  // for the listener
  int port = 0;
};

absl::StatusOr<Place> ReadPlace(const Settings& settings) {
  const std::string text = settings.Text("listen");
  if (text.empty()) return absl::InvalidArgumentError("give --listen HOST:PORT, as in --listen 0.0.0.0:8443");
  if (text.substr(0, 2) == "*:") {
    MT_ASSIGN_OR_RETURN(const Endpoint endpoint, ParseEndpoint("localhost" + text.substr(1)));
    return Place{"*", "", endpoint.port};
  }
  MT_ASSIGN_OR_RETURN(const Endpoint endpoint, ParseEndpoint(text));
  const bool local = absl::AsciiStrToLower(endpoint.host) == "localhost";
  return Place{endpoint.host, local ? "127.0.0.1" : endpoint.host, endpoint.port};
}

void Announce(const Place& place, int port, const std::string& root, bool plain) {
  std::vector<std::string> outside;
  const std::vector<ServedSet> sets = FindSets(root, &outside);
  for (const std::string& name : outside)
    log::Warning(root, "/", name,
                 " is not served: one of its files is missing, or a link in it points outside ", root);
  const std::string host = place.shown == "*" || place.address == "0.0.0.0" ? "THIS-HOST" : place.shown;
  const std::string url = absl::StrCat(plain ? "http://" : "https://", ToText(Endpoint{host, port}));
  std::cout << "serving " << root << " at " << url << "\n\n";
  if (sets.empty()) {
    std::cout << "it contains no packed data set yet: create one with `mtdata import SOURCE " << root
              << "/NAME`\n";
  } else {
    std::cout << TableOf(sets) << "\nuse one with: --data " << url
              << (sets[0].name.empty() ? "" : "/" + datasets::PathInUrl(sets[0].name)) << "\n";
  }
  std::cout << std::flush;
}

/// Blocks the stop signals. Called before the first thread starts, so that every thread leaves them to Await.
sigset_t BlockStopSignals() {
  sigset_t stops;
  sigemptyset(&stops);
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) sigaddset(&stops, number);
  pthread_sigmask(SIG_BLOCK, &stops, nullptr);
  return stops;
}

absl::StatusOr<SetServerOptions> OptionsOf(const Settings& settings, const std::string& root,
                                           const Place& place) {
  const bool plain = settings.Bool("plain");
  if (plain && !IsLoopback(place.address))
    return absl::InvalidArgumentError(
        "--plain needs a loopback address in --listen: traffic to other machines is always encrypted");
  MT_ASSIGN_OR_RETURN(const std::string token,
                      LoadToken({.file = settings.Text("token_file")}, MissingToken::kMake));
  const std::string secret = ReadingSecretOf(token);
  SetServerOptions options{
      .root = root, .bearer = BearerOf(secret, !plain), .metrics_bearer = MetricsBearerOf(secret, !plain)};
  options.threads = static_cast<int>(settings.Int("threads"));
  options.connections = static_cast<size_t>(settings.Int("connections"));
  options.access_log = settings.Bool("access_log");
  if (plain) return options;
  MT_ASSIGN_OR_RETURN(const TlsIdentity identity, DataServerIdentity(token));
  MT_ASSIGN_OR_RETURN(options.tls, web::MakeTlsContext(identity.certificate, identity.private_key));
  return options;
}

absl::Status Serve(const Settings& settings, const std::string& root) {
  MT_ASSIGN_OR_RETURN(const Place place, ReadPlace(settings));
  MT_ASSIGN_OR_RETURN(const SetServerOptions options, OptionsOf(settings, root, place));
  MT_ASSIGN_OR_RETURN(const std::shared_ptr<SetServer> sets, SetServer::Make(options));
  RaiseFileLimit();
  const sigset_t stops = BlockStopSignals();
  MT_ASSIGN_OR_RETURN(const std::unique_ptr<web::HttpServer> server,
                      web::HttpServer::Start(place.address, place.port, SetServer::ServiceOf(sets)));
  sets->set_http(server.get());
  Announce(place, server->port(), root, options.tls == nullptr);
  int number = 0;
  sigwait(&stops, &number);
  log::Info("stopping: responses in progress have ", settings.Int("grace"), " s to finish");
  const bool finished = server->Finish(std::chrono::seconds(settings.Int("grace")));
  if (!finished)
    log::Warning("some responses were cut off; their clients will resume from another server or later");
  return absl::OkStatus();
}

int RunServe(const Settings& settings, const std::vector<std::string>& words) {
  const absl::Status served = Serve(settings, words[0]);
  if (served.ok()) return 0;
  return datasets::Complain(absl::IsInvalidArgument(served) ? datasets::kUsage : datasets::kFailure, served);
}

}  // namespace

datasets::Command ServeCommand() {
  return {.name = "serve",
          .help = {.purpose = "Serves the data sets in the folder ROOT to trainers, until SIGTERM or SIGINT.",
                   .usage = {"mtdata serve ROOT --listen HOST:PORT [flags]"},
                   .examples = {{"to all nodes that have the cluster's token",
                                 "mtdata serve data --listen 0.0.0.0:8443"},
                                {"to this machine alone, without TLS",
                                 "mtdata serve data --listen 127.0.0.1:8080 --plain"}}},
          .specs = ServeSpecs,
          .words = {"ROOT"},
          .run = RunServe,
          .give = "give one folder, as in `mtdata serve data --listen 0.0.0.0:8443`"};
}

}  // namespace mtrun::mtdata
