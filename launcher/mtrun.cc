// mtrun: starts, watches and regroups the workers of one node of a job. See --help.
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <filesystem>
#include <iostream>
#include <stop_token>
#include <thread>

#include "absl/strings/str_format.h"
#include "base/file_limit.h"
#include "base/log.h"
#include "base/posix.h"
#include "base/standard_output.h"
#include "base/start_thread.h"
#include "base/token.h"
#include "base/version.h"
#include "launcher/agent.h"
#include "launcher/cli/completion.h"
#include "launcher/cli/machine.h"
#include "launcher/cli/options.h"
#include "launcher/cli/program.h"
#include "launcher/doctor/doctor.h"
#include "launcher/net/local_address.h"
#include "launcher/net/presence_port.h"
#include "launcher/output/log_files.h"
#include "launcher/pmi/step_token.h"
#include "launcher/questions.h"
#include "launcher/rendezvous_access.h"
#include "launcher/service_program.h"
#include "launcher/ssh/host_end.h"
#include "launcher/ssh/ssh_job.h"
#include "launcher/trainer_check.h"
#include "launcher/workers/command_line.h"
#include "launcher/workers/guardian.h"
#include "launcher/workers/lease_alarm.h"
#include "page/passwords.h"
#include "rendezvous/service/state_folder.h"
#include "rendezvous/transport.h"

namespace mtrun::launcher {
namespace {

constexpr int kFailed = 1, kUsageError = 2;
// Pipes, log files, connections of a worker and what it is watched by; those of a node to a service here.
constexpr size_t kFilesBesides = 256, kFilesAWorker = 16, kFilesANode = 2;

int Complain(const absl::Status& status, int exit_status = kUsageError) {
  std::cerr << "mtrun: " << status.message() << std::endl;
  return exit_status;
}

/// What was asked for, on standard output; the exit status.
int Say(const std::string& text) {
  const absl::Status told = PrintOut(text);
  return told.ok() ? 0 : Complain(told, kFailed);
}

/// A process that starts with one of the first three descriptors closed would hand its pipes to the workers
/// under their numbers.
void OpenStandardDescriptors() {
  int fd = open("/dev/null", O_RDWR);
  while (fd >= 0 && fd <= STDERR_FILENO) fd = dup(fd);
  if (fd > STDERR_FILENO) close(fd);
}

void SetUpLog(const EnvironmentMap& environment) {
  log::Level level = log::Level::kInfo;
  const auto found = environment.find("LOGLEVEL");
  const bool given = found != environment.end() && !found->second.empty();
  const bool known = !given || log::ParseLevel(found->second, &level);
  log::SetUp("mtrun", level);
  if (!known)
    log::Warning("LOGLEVEL: \"", found->second, "\" is not allowed; it takes debug, info, warning or error");
}

/// None for a node alone: nobody asks about it.
absl::StatusOr<PresencePort> OpenPresence(const Options& options) {
  if (options.standalone) return PresencePort();
  // The nodes of a job on loopback know each other as 127.0.0.1, unless --local_addr says otherwise.
  const bool is_told = !options.local_addr.empty() && options.local_addr != kAutoAddress;
  return PresencePort::Open(/*on_loopback=*/!is_told && IsOnLoopback(options), options.port_range);
}

/// What to log in with on the live page.
int SayPasswords(const Options& options) {
  const absl::StatusOr<std::string> token =
      LoadToken({options.token_file, options.weak_token}, MissingToken::kMake);
  if (!token.ok()) return Complain(token.status());
  return Say(page::PasswordTable(*token));
}

/// What needs no program of this node: its exit status.
int Answer(const Options& options, const std::vector<std::string>& args, const EnvironmentMap& environment) {
  switch (options.act) {
    case Options::Act::kHelp:
      return Say(HelpText());
    case Options::Act::kVersion:
      return Say(VersionLine("mtrun", rendezvous::TransportName()) + "\n");
    case Options::Act::kCompletion:
      return Say(CompletionScript(options.completion_shell));
    case Options::Act::kNewToken:
      return Say(MakeToken() + "\n");
    case Options::Act::kPasswords:
      return SayPasswords(options);
    case Options::Act::kDoctor:
      return RunDoctor(options, environment);
    case Options::Act::kSsh: {
      const absl::StatusOr<int> ended = RunOverSsh(options, args, environment);
      return ended.ok() ? *ended : Complain(ended.status());
    }
    default:
      break;
  }
  const absl::Status asked = AskServices(options);
  return asked.ok() ? 0 : Complain(asked, kFailed);
}

/// Removes the logs of old runs while this one goes on. What it does not come to is left to the next run, and
/// all of it where the system has no thread left.
class LogCleaner {
 public:
  explicit LogCleaner(const LogFiles& files)
      : runs_(StartThread(&thread_, [files, over = over_.get_token()] { files.RemoveOldRuns(over); })) {}
  ~LogCleaner() {
    over_.request_stop();
    if (runs_) thread_.join();
  }
  LogCleaner(const LogCleaner&) = delete;

 private:
  std::stop_source over_;
  std::thread thread_;
  const bool runs_;
};

int Main(std::vector<std::string> args) {
  OpenStandardDescriptors();
  RaiseFileLimit();
  std::vector<DerivedSetting> derived;
  if (IsHostEnd(args)) {
    absl::StatusOr<Order> order = BecomeHostEnd();
    if (!order.ok()) return Complain(order.status());
    args = order->args;
    derived = order->settings;
  }
  const EnvironmentMap environment = CurrentEnvironment();
  SetUpLog(environment);
  const absl::StatusOr<std::string> folder = ExecutableFolder();
  if (!folder.ok()) return Complain(folder.status());
  absl::StatusOr<Options> options = ParseOptions(args, environment, LookAtMachine(environment), derived);
  if (!options.ok()) return Complain(options.status());
  if (options->act != Options::Act::kRun) return Answer(*options, args, environment);
  if (options->entry.trainer == "list") return Say(ListTrainers(environment, *folder));
  if (const absl::Status settled = SettleLocalAddress(&*options); !settled.ok()) return Complain(settled);
  const absl::StatusOr<Program> program = ResolveProgram(options->entry, environment, *folder);
  if (!program.ok()) return Complain(program.status());
  if (!options->entry.trainer.empty()) {
    if (AsksTrainer(options->entry.words)) BecomeTrainer(*program);
    if (const int wrong = CheckTrainer(*options, *program, *folder); wrong != 0) return wrong;
  }
  if (!options->run_id_given) options->job.program = ProgramIdentity(*program, options->entry);
  if ((options->standalone || options->endpoint == "127.0.0.1:0") && !options->run_id_given)
    options->job.job_id = absl::StrFormat("%016x", RandomBits());
  absl::StatusOr<LogFiles> log_files =
      LogFiles::Make(options->log_dir, options->job.job_id, rendezvous::StateFolderOf(environment));
  if (!log_files.ok()) return Complain(log_files.status());
  for (const std::string& note : options->notes) log::Warning(note);
  if (!options->derived.empty()) log::Info(options->derived);
  // Of a step whose nodes Slurm told: where a service elsewhere is given, its token is too.
  if (!options->derived.empty() && !options->standalone && !options->insecure) {
    const absl::Status taken = TakeTokenOfStep({options->token_file, options->weak_token}, environment);
    if (!taken.ok()) return Complain(taken, kFailed);
  }
  absl::StatusOr<PresencePort> presence = OpenPresence(*options);
  absl::StatusOr<LeaseAlarm> alarm = LeaseAlarm::Make();
  for (const absl::Status& status : {presence.status(), alarm.status()}) {
    if (status.ok()) continue;
    log::Error(status.message());
    return 1;
  }
  signal(SIGPIPE, SIG_IGN);
  SetSignals(options->signals);
  BecomeGuarded(*presence, *alarm);
  MakeRoomForFiles(kFilesBesides + kFilesAWorker * static_cast<size_t>(options->workers) +
                   kFilesANode * static_cast<size_t>(options->job.max_nodes));
  const LogCleaner cleaner(*log_files);
  return RunAgent(*options, *program, *log_files, *presence, *alarm);
}

}  // namespace
}  // namespace mtrun::launcher

int main(int argc, char** argv) {
  if (argc > 0 && std::filesystem::path(argv[0]).filename() == mtrun::launcher::kServiceProgram)
    return mtrun::launcher::RunServiceProgram(argc, argv);
  mtrun::launcher::KeepCommandLine(argc, argv);
  return mtrun::launcher::Main({argv + 1, argv + argc});
}
