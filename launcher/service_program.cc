#include "launcher/service_program.h"

#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/endpoint.h"
#include "base/file_limit.h"
#include "base/log.h"
#include "base/settings.h"
#include "base/standard_output.h"
#include "base/status_macros.h"
#include "base/token.h"
#include "base/version.h"
#include "base/worker_env.h"
#include "launcher/output/console.h"
#include "page/page.h"
#include "page/passwords.h"
#include "rendezvous/service/service.h"
#include "rendezvous/service/state_folder.h"
#include "rendezvous/status_client.h"
#include "rendezvous/transport.h"

namespace mtrun::launcher {
namespace {

// Of the largest job; a table of so many takes 128 KiB.
constexpr size_t kFiles = 16384;

constexpr char kUsage[] =
    "mtrdzv: the rendezvous service of mtrun, stand-alone\n"
    "\n"
    "usage: mtrdzv [--port 29400] [--host ADDRESS]       serve until SIGTERM or SIGINT\n"
    "       mtrdzv status HOST:PORT [--json]             show the jobs and nodes of a running service\n"
    "       mtrdzv passwords                             print the passwords of the live page (--http)\n"
    "\n"
    "mtrun hosts the service itself on the node that --rdzv_endpoint names; a stand-alone one outlives any "
    "node. Agents whose\n"
    "service is away go on running and come back to the next one: start it again at the same endpoint at any "
    "time.\n"
    "Who is in its jobs it keeps in $XDG_STATE_HOME/mtrun, else ~/.local/state/mtrun, for that next one.\n"
    "Agents and service must share one token: MTRUN_TOKEN, or the file ~/.mtrun/token that is made at first "
    "use.\n"
    "\n";

std::vector<SettingSpec> SecuritySpecs() {
  using Kind = SettingSpec::Kind;
  return {
      {.name = "insecure",
       .kind = Kind::kBool,
       .default_text = "false",
       .help = "No TLS, no token: anybody who reaches the port can take part.",
       .group = "Security"},
      {.name = "token_file",
       .help = "File with the cluster's token instead of MTRUN_TOKEN or ~/.mtrun/token.",
       .group = "Security"},
      {.name = "weak_token",
       .kind = Kind::kBool,
       .default_text = "false",
       .help = "Takes a token that mtrun has not made, of at least 32 characters.",
       .group = "Security"},
  };
}

std::vector<SettingSpec> ServiceSpecs() {
  using Kind = SettingSpec::Kind;
  return {
      {.name = "endpoint",
       .help = "Where to listen as host:port, instead of --host and --port.",
       .group = "Service"},
      {.name = "host",
       .default_text = "::",
       .help = "Address to listen on; :: is every interface.",
       .group = "Service"},
      {.name = "port",
       .kind = Kind::kInt,
       .default_text = "29400",
       .help = "Port to listen on; 0 takes any free one.",
       .group = "Service",
       .min = 0,
       .max = 65535},
      {.name = "recovery_window",
       .kind = Kind::kDouble,
       .default_text = "3",
       .help = "Seconds that a new service waits for nodes that still run.",
       .group = "Service",
       .min = 0,
       .max = 3600},
      {.name = "state_folder",
       .help = "Folder where the service writes down who is in its jobs, so that the next one at this port "
               "knows whom to wait for; \"\" for none.",
       .group = "Service"},
      {.name = "http",
       .help = "HOST:PORT: serves a live page of the jobs there; 127.0.0.1:8080 for this machine alone.",
       .group = "Service"},
      {.name = "log_level",
       .default_text = "info",
       .help = "Lowest level that is shown.",
       .group = "Service",
       .choices = {"debug", "info", "warning", "error"}},
      {.name = "json",
       .kind = Kind::kBool,
       .default_text = "false",
       .help = "With status: JSON for programs instead of a table.",
       .group = "Service"},
  };
}

std::vector<SettingSpec> Specs() {
  using Kind = SettingSpec::Kind;
  std::vector<SettingSpec> specs = ServiceSpecs();
  const std::vector<SettingSpec> security = SecuritySpecs();
  specs.insert(specs.end(), security.begin(), security.end());
  specs.push_back({.name = "version",
                   .kind = Kind::kBool,
                   .default_text = "false",
                   .help = "Show the version.",
                   .group = "Service"});
  specs.push_back({.name = "help",
                   .kind = Kind::kBool,
                   .default_text = "false",
                   .help = "Show this text.",
                   .group = "Service",
                   .letter = 'h'});
  return specs;
}

absl::StatusOr<Endpoint> WhereToListen(const Settings& settings) {
  if (settings.IsSet("endpoint")) return ParseEndpoint(settings.Text("endpoint"));
  return Endpoint{settings.Text("host"), static_cast<int>(settings.Int("port"))};
}

TokenSource SourceOf(const Settings& settings) {
  return {settings.Text("token_file"), settings.Bool("weak_token")};
}

absl::StatusOr<std::unique_ptr<page::Page>> ServePage(const Settings& settings, Endpoint service,
                                                      const std::string& token) {
  // All addresses of this machine: one of them is enough.
  if (service.host == "::" || service.host == "0.0.0.0" || service.host.empty())
    service.host = service.host == "0.0.0.0" ? "127.0.0.1" : "localhost";
  page::PageOptions page{settings.Text("http"), {ToText(service)}, settings.Bool("insecure"), token, token};
  if (token.empty()) {
    MT_ASSIGN_OR_RETURN(page.page_token, LoadToken(SourceOf(settings), MissingToken::kMake));
  }
  return page::Page::Start(page);
}

absl::Status ShowPasswords(const Settings& settings) {
  MT_ASSIGN_OR_RETURN(const std::string token, LoadToken(SourceOf(settings), MissingToken::kMake));
  return PrintOut(page::PasswordTable(token));
}

/// While it lives the log's lines queue up for standard error: a reader that hangs, or is gone, holds up
/// no decision and ends no service.
class QueuedLog {
 public:
  QueuedLog() : console_(std::make_shared<Console>(STDOUT_FILENO, STDERR_FILENO)) {
    signal(SIGPIPE, SIG_IGN);
    log::SetSink([console = console_](std::string line) { console->Say(std::move(line)); });
  }
  /// Nobody logs any more; the console gives its reader a moment for what is still queued.
  ~QueuedLog() { log::SetSink({}); }
  QueuedLog(const QueuedLog&) = delete;

 private:
  std::shared_ptr<Console> console_;
};

absl::Status Serve(const Settings& settings, const sigset_t& signals) {
  RaiseFileLimit();
  MakeRoomForFiles(kFiles);
  const QueuedLog queued;
  MT_ASSIGN_OR_RETURN(Endpoint endpoint, WhereToListen(settings));
  rendezvous::ServiceOptions options;
  options.listen = ToText(endpoint);
  options.insecure = settings.Bool("insecure");
  if (!options.insecure) {
    const MissingToken missing =
        IsLoopback(endpoint.host) ? MissingToken::kMake : MissingToken::kMakeForNodes;
    MT_ASSIGN_OR_RETURN(options.token, LoadToken(SourceOf(settings), missing));
  }
  options.recovery_window = FromSeconds(settings.Double("recovery_window"));
  // At a free port no other one follows.
  if (endpoint.port != 0 && settings.IsSet("state_folder")) {
    options.state_folder = settings.Text("state_folder");
  } else if (endpoint.port != 0) {  // in a home that other machines may share
    options.state_folder = rendezvous::StateFolderOf(CurrentEnvironment());
    options.state_host = HostName();
  }
  MT_ASSIGN_OR_RETURN(const auto service, rendezvous::Service::Start(options));
  endpoint.port = service->port();
  log::Info("serving at ", ToText(endpoint),
            options.insecure ? ", without TLS: ANYBODY who reaches the port can take part" : ", with TLS");
  std::unique_ptr<page::Page> page;
  if (settings.IsSet("http")) {
    MT_ASSIGN_OR_RETURN(page, ServePage(settings, endpoint, options.token));
  }
  int signal = 0;
  sigwait(&signals, &signal);
  log::Info("stopping on SIG", sigabbrev_np(signal));
  return absl::OkStatus();
}

absl::Status ShowStatus(const Settings& settings, const std::vector<std::string>& words) {
  if (words.size() != 2) return absl::InvalidArgumentError("give one endpoint: mtrdzv status HOST:PORT");
  const rendezvous::Credentials credentials = {settings.Bool("insecure"),
                                               {settings.Text("token_file"), /*weak=*/true}};
  MT_ASSIGN_OR_RETURN(const rendezvous::ServiceStatus status,
                      rendezvous::AskForStatus(words[1], credentials));
  return PrintOut(settings.Bool("json") ? rendezvous::StatusJson(status) : rendezvous::StatusTable(status));
}

/// Flags may stand before and after `status ENDPOINT`.
absl::StatusOr<std::vector<std::string>> ParseAll(Settings& settings, std::vector<std::string> args) {
  std::vector<std::string> words;
  while (true) {
    MT_ASSIGN_OR_RETURN(args, settings.ParseFlags(args, true));
    if (args.empty()) return words;
    words.push_back(args.front());
    args.erase(args.begin());
  }
}

absl::Status RunService(int argc, char** argv, const sigset_t& signals) {
  Settings settings("mtrdzv", Specs());
  MT_ASSIGN_OR_RETURN(const auto words, ParseAll(settings, std::vector<std::string>(argv + 1, argv + argc)));
  if (settings.Bool("help")) return PrintOut(kUsage + settings.Help());
  if (settings.Bool("version")) return PrintOut(VersionLine("mtrdzv", rendezvous::TransportName()) + "\n");
  log::Level level = log::Level::kInfo;
  log::ParseLevel(settings.Text("log_level"), &level);
  log::SetUp("mtrdzv", level);
  if (words.empty()) return Serve(settings, signals);
  if (words[0] == "status") return ShowStatus(settings, words);
  if (words[0] == "passwords" && words.size() == 1) return ShowPasswords(settings);
  return absl::InvalidArgumentError(
      absl::StrCat("unknown command \"", words[0],
                   "\": there is `mtrdzv`, `mtrdzv status HOST:PORT` and `mtrdzv passwords`"));
}

}  // namespace

int RunServiceProgram(int argc, char** argv) {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);  // before the first thread: sigwait takes them
  const absl::Status status = RunService(argc, argv, signals);
  if (status.ok()) return 0;
  std::cerr << "mtrdzv: " << status.message() << "\n";
  return absl::IsInvalidArgument(status) ? 2 : 1;
}

}  // namespace mtrun::launcher
