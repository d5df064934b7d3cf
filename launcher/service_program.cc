#include "launcher/service_program.h"

#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/endpoint.h"
#include "base/file_limit.h"
#include "base/help_page.h"
#include "base/link_zone.h"
#include "base/log.h"
#include "base/settings.h"
#include "base/standard_output.h"
#include "base/status_macros.h"
#include "base/thread_limit.h"
#include "base/token.h"
#include "base/version.h"
#include "base/worker_env.h"
#include "launcher/net/interfaces.h"
#include "launcher/output/console.h"
#include "page/page.h"
#include "page/passwords.h"
#include "rendezvous/client/status_client.h"
#include "rendezvous/client/transport.h"
#include "rendezvous/service/service.h"
#include "rendezvous/service/state_folder.h"

namespace mtrun::launcher {
namespace {

// For the largest job; a descriptor table of this size takes 128 KiB.
constexpr size_t kFiles = 16384;

HelpPage Help() {
  return {
      .purpose = "Serves the rendezvous of mtrun's jobs on its own, so that it outlives any of their nodes.",
      .usage = {"mtrdzv [flags]                       serve until SIGTERM or SIGINT",
                "mtrdzv status HOST:PORT [--json]     print the jobs and nodes of a service",
                "mtrdzv passwords                     print the passwords of the live page"},
      .examples = {{"serve on port 29400 of all interfaces", "mtrdzv"},
                   {"the same, with a live page for this machine alone", "mtrdzv --http 127.0.0.1:8080"},
                   {"the jobs and nodes of a service", "mtrdzv status node1:29400"}},
      .notes =
          "Without mtrdzv, mtrun serves on the node that --rdzv_endpoint names. While mtrdzv is\n"
          "down its jobs continue; they connect again when it is started at the same endpoint.\n"};
}

std::vector<SettingSpec> SecuritySpecs() {
  SettingSpec token =
      TextSpec("token_file", "FILE", "File with the cluster's token, the same for service and nodes.");
  token.otherwise = "$MTRUN_TOKEN, else ~/.mtrun/token, made at first use";
  return InGroup(
      "Security",
      {SwitchSpec(
           "insecure", "false",
           "Use neither token nor TLS: anyone who can reach the port can join, read and stop its jobs."),
       token,
       SwitchSpec("weak_token", "false",
                  "Accept a token that mtrun has not made, of at least 32 characters.")});
}

std::vector<SettingSpec> ServiceSpecs() {
  using Kind = SettingSpec::Kind;
  return InGroup(
      "Service",
      {TextSpec("endpoint", "HOST:PORT", "Address to listen on, instead of --host and --port."),
       {.name = "host",
        .default_text = "::",
        .help = "Address to listen on; :: for all interfaces.",
        .value = "ADDRESS",
        .common = true},
       {.name = "port",
        .kind = Kind::kInt,
        .default_text = "29400",
        .help = "Port to listen on; 0 for any free one.",
        .value = "PORT",
        .common = true,
        .min = 0,
        .max = 65535},
       {.name = "recovery_window",
        .kind = Kind::kDouble,
        .default_text = "3",
        .help = "Time for which a new service waits for nodes that still run.",
        .value = "SECONDS",
        .min = 0,
        .max = 3600},
       {.name = "state_folder",
        .help = "Folder in which the service saves the members of its jobs, so that its next start at this "
                "port knows for which nodes to wait; \"\" for none.",
        .value = "FOLDER",
        .otherwise = "$XDG_STATE_HOME/mtrun, else ~/.local/state/mtrun"},
       {.name = "http",
        .help = "Address at which to serve a live page of the jobs; a PORT alone (8080) is one of 127.0.0.1.",
        .value = "HOST:PORT",
        .common = true},
       {.name = "log_level",
        .default_text = "info",
        .help = "Lowest level that is logged.",
        .choices = {"debug", "info", "warning", "error"}},
       SwitchSpec("json", "false", "With status: print JSON.")});
}

std::vector<SettingSpec> Specs() {
  SettingSpec help = SwitchSpec("help", "false", "Print this text.");
  help.common = true;
  help.letter = 'h';
  const SettingSpec version = SwitchSpec("version", "false", "Print the version.");
  std::vector<SettingSpec> specs;
  for (const auto& more : {ServiceSpecs(), SecuritySpecs(), InGroup("Service", {version, help})})
    specs.insert(specs.end(), more.begin(), more.end());
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
  // The service listens on all addresses; one of them is enough.
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

/// During its lifetime log lines are queued for standard error: a reader that hangs or is gone delays no
/// decision and does not end the service.
class QueuedLog {
 public:
  QueuedLog() : console_(std::make_shared<Console>(STDOUT_FILENO, STDERR_FILENO)) {
    signal(SIGPIPE, SIG_IGN);
    log::SetSink([console = console_](std::string line) { console->Say(std::move(line)); });
  }
  /// No other thread logs any more; the console gives its reader a moment to take the queued lines.
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
  MT_RETURN_IF_ERROR(CheckZone(endpoint));
  SetLinkZone(ZoneOf(endpoint.host).empty() ? FirstZone(ListInterfaces()) : ZoneOf(endpoint.host));
  if (settings.IsSet("http"))
    MT_RETURN_IF_ERROR(
        Annotate(ParseLocalEndpoint(settings.Text("http"), kDefaultPagePort).status(), "--http"));
  rendezvous::ServiceOptions options;
  options.listen = ToText(endpoint);
  options.insecure = settings.Bool("insecure");
  if (!options.insecure) {
    const MissingToken missing =
        IsLoopback(endpoint.host) ? MissingToken::kMake : MissingToken::kMakeForNodes;
    MT_ASSIGN_OR_RETURN(options.token, LoadToken(SourceOf(settings), missing));
  }
  options.recovery_window = FromSeconds(settings.Double("recovery_window"));
  // A service on an ephemeral port has no successor.
  if (endpoint.port != 0 && settings.IsSet("state_folder")) {
    options.state_folder = settings.Text("state_folder");
  } else if (endpoint.port != 0) {  // in a home that several machines may share
    options.state_folder = rendezvous::StateFolderOf(CurrentEnvironment());
    options.state_host = HostName();
  }
  MT_ASSIGN_OR_RETURN(const auto service, rendezvous::Service::Start(options));
  endpoint.port = service->port();
  log::Info("serving at ", ToText(endpoint),
            options.insecure ? ", without TLS: ANYONE who can reach the port may join" : ", with TLS");
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

absl::Status RunService(int argc, char** argv, const sigset_t& signals) {
  ExplainLackOfThreads("mtrdzv");
  SurviveSizeLimit();
  Settings settings("mtrdzv", Specs());
  MT_ASSIGN_OR_RETURN(const auto words, settings.ParseWords({argv + 1, argv + argc}));
  if (settings.Bool("help")) return PrintOut(HelpText(Help(), settings.Help()));
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
  PrintError("mtrdzv", status.message());
  return absl::IsInvalidArgument(status) ? 2 : 1;
}

}  // namespace mtrun::launcher
