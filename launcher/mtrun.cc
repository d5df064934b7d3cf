// mtrun: starts, watches and regroups the workers of one node of a job. See --help.
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <filesystem>
#include <stop_token>
#include <thread>

#include "absl/strings/str_format.h"
#include "base/file_limit.h"
#include "base/log.h"
#include "base/log_level.h"
#include "base/own_launch.h"
#include "base/posix.h"
#include "base/standard_output.h"
#include "base/start_thread.h"
#include "base/status_macros.h"
#include "base/thread_limit.h"
#include "base/token.h"
#include "base/version.h"
#include "launcher/agent.h"
#include "launcher/cli/completion.h"
#include "launcher/cli/machine.h"
#include "launcher/cli/options.h"
#include "launcher/cli/program.h"
#include "launcher/cli/words.h"
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
#include "launcher/workers/open_files.h"
#include "page/passwords.h"
#include "rendezvous/client/transport.h"
#include "rendezvous/service/state_folder.h"

namespace mtrun::launcher {
namespace {

constexpr char kNoLogs[] = "/dev/null";
constexpr int kFailed = 1, kUsageError = 2;
// Per worker: pipes, log files and connections, more than most need. Per node: connections to a service here.
constexpr size_t kFilesBesides = 256, kFilesAWorker = 16, kFilesANode = 2;

int Complain(const absl::Status& status, int exit_status = kUsageError) {
  PrintError("mtrun", status.message());
  return exit_status;
}

/// Prints the answer to standard output; returns the exit status. `indent`: of lines that a terminal wraps.
int Say(const std::string& text, size_t indent = 0) {
  const absl::Status told = PrintOut(text, indent);
  return told.ok() ? 0 : Complain(told, kFailed);
}

/// Opens descriptors 0 to 2 if they are closed, so that pipes do not get these numbers in the workers.
void OpenStandardDescriptors() {
  int fd = open("/dev/null", O_RDWR);
  while (fd >= 0 && fd <= STDERR_FILENO) fd = dup(fd);
  if (fd > STDERR_FILENO) close(fd);
}

/// Removes from this process's environment, for good, what an mtrun of another job or Slurm step has set:
/// this mtrun is in no worker of it, and must not write its error file.
EnvironmentMap OwnEnvironment() {
  const EnvironmentMap given = CurrentEnvironment();
  EnvironmentMap own = given;
  const auto socket = given.find("MTRUN_SOCKET");
  if (socket == given.end()) return own;
  const SocketOwner owner = LookAtOwner(socket->second);
  if (!IsBelowMtrun(given, owner)) RemoveOtherJobs(own, owner);
  for (const auto& [name, value] : given)
    if (!own.contains(name)) unsetenv(name.c_str());
  return own;
}

/// Opens no port for a single node, because no other node probes it.
absl::StatusOr<PresencePort> OpenPresence(const Options& options) {
  if (options.standalone) return PresencePort();
  // The nodes of a job on loopback use 127.0.0.1 for each other, unless --local_addr is given.
  const bool is_told = !options.local_addr.empty() && options.local_addr != kAutoAddress;
  const bool on_loopback = !is_told && !options.serves_all && IsOnLoopback(options);
  return PresencePort::Open(on_loopback, options.port_range);
}

/// Prints the logins of the live page.
int SayPasswords(const Options& options) {
  const absl::StatusOr<std::string> token =
      LoadToken({options.token_file, options.weak_token}, MissingToken::kMake);
  if (!token.ok()) return Complain(token.status());
  return Say(page::PasswordTable(*token));
}

/// Handles the acts that run no program on this node; returns the exit status.
int Answer(const Options& options, const std::vector<std::string>& args, const EnvironmentMap& environment,
           const std::string& executable_folder) {
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
      return RunDoctor(options, environment, executable_folder);
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

/// Removes the logs of old runs during this one. The next run removes the rest, or everything if the system
/// could start no thread.
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

/// Checks that the limit on open files suffices for the workers. Leaves out their log files if they were not
/// requested and do not fit.
absl::Status FitOpenFiles(Options* options) {
  const bool requested = !options->log_dir.empty() && options->log_dir != kNoLogs;
  RaiseFileLimit(FilesOf(options->workers, /*with_logs=*/true));
  MT_RETURN_IF_ERROR(CheckOpenFiles(options->workers, requested, FileLimit()));
  options->keeps_logs = !options->log_dir.empty() || LogsFit(options->workers, FileLimit());
  if (!options->keeps_logs) log::Warning(LogsLeftOut(options->workers, FileLimit()));
  return absl::OkStatus();
}

/// Makes the folder for the workers' output. If none was requested and none can be made (a read-only file
/// system), the job runs without.
absl::StatusOr<LogFiles> MakeLogFiles(Options* options, const EnvironmentMap& environment) {
  absl::StatusOr<LogFiles> made =
      LogFiles::Make(options->log_dir, options->job.job_id, rendezvous::StateFolderOf(environment));
  if (made.ok() || !options->log_dir.empty()) return made;
  log::Warning(made.status().message(), ": no log files are written");
  options->log_dir = kNoLogs;
  return LogFiles::Make(options->log_dir, options->job.job_id, "");
}

/// Replaces a word such as "status" by its flags. A program of that name in this folder is run, as by torchrun.
absl::Status ReplaceWord(std::vector<std::string>* args) {
  if (args->empty() || !IsWord(args->front())) return absl::OkStatus();
  std::error_code none;
  if (std::filesystem::is_regular_file(args->front(), none)) {
    log::Info("runs the file ", args->front(), " of this folder, not mtrun's own command of that name");
    return absl::OkStatus();
  }
  MT_ASSIGN_OR_RETURN(*args, FlagsForWord(*args, TrainerOfRun));
  return absl::OkStatus();
}

/// Becomes the trainer if it is only asked something; otherwise checks the settings of a trainer of mtrun's own.
/// Returns its exit status if they are wrong, else 0.
int PrepareTrainer(Options* options, const Program& program, const std::string& folder) {
  const std::vector<std::string>& words = options->entry.words;
  if (AsksTrainer(words)) BecomeTrainer(program);
  if (!ComesWithMtrun(program.file, folder)) return 0;
  if (options->job.max_nodes == 1 && AsksOneProcess(words)) BecomeOneProcess(*options, program);
  if (options->console_format.empty() && AsksEvaluation(words)) options->console_format = "plain";
  return CheckTrainer(*options, program);
}

int Main(std::vector<std::string> args) {
  OpenStandardDescriptors();
  ExplainLackOfThreads("mtrun");
  SurviveSizeLimit();
  RaiseFileLimit();
  std::vector<DerivedSetting> derived;
  if (IsHostEnd(args)) {
    absl::StatusOr<Order> order = BecomeHostEnd();
    if (!order.ok()) return Complain(order.status());
    args = order->args;
    derived = order->settings;
  }
  const EnvironmentMap environment = OwnEnvironment();
  log::SetUpFromEnvironment("mtrun");
  const absl::StatusOr<std::string> folder = ExecutableFolder();
  if (!folder.ok()) return Complain(folder.status());
  if (const absl::Status replaced = ReplaceWord(&args); !replaced.ok()) return Complain(replaced);
  absl::StatusOr<Options> options = ParseOptions(args, environment, LookAtMachine(environment), derived);
  if (!options.ok()) return Complain(options.status());
  SettleEndpoints(&*options);
  if (options->act != Options::Act::kRun) return Answer(*options, args, environment, *folder);
  if (options->entry.trainer == "list") return Say(ListTrainers(environment, *folder), kTrainerColumns);
  if (const absl::Status settled = SettleLocalAddress(&*options); !settled.ok()) return Complain(settled);
  const absl::StatusOr<Program> program = ResolveProgram(options->entry, environment, *folder);
  if (!program.ok()) return Complain(program.status());
  if (!options->entry.trainer.empty())
    if (const int wrong = PrepareTrainer(&*options, *program, *folder); wrong != 0) return wrong;
  if (!options->run_id_given) options->job.program = ProgramIdentity(*program, options->entry);
  if ((options->standalone || options->endpoint == "127.0.0.1:0") && !options->run_id_given)
    options->job.job_id = absl::StrFormat("%016x", RandomBits());
  if (const absl::Status fits = FitOpenFiles(&*options); !fits.ok()) return Complain(fits);
  absl::StatusOr<LogFiles> log_files = MakeLogFiles(&*options, environment);
  if (!log_files.ok()) return Complain(log_files.status());
  for (const std::string& note : options->notes) log::Warning(note);
  if (!program->note.empty()) log::Info(program->note);
  if (!options->derived.empty()) log::Info(options->derived);
  // In a Slurm step that set the nodes. A service given explicitly comes with its own token.
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
