#include "launcher/questions.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <iostream>
#include <thread>

#include "base/clock.h"
#include "base/status_macros.h"
#include "launcher/top.h"
#include "rendezvous/control_client.h"
#include "rendezvous/log_client.h"
#include "rendezvous/status_client.h"
#include "rendezvous/status_watch.h"

namespace mtrun::launcher {
namespace {

/// A weak token of another one's cluster is no fault of who asks.
rendezvous::Credentials CredentialsOf(const Options& options) {
  return {options.insecure, {options.token_file, /*weak=*/true}};
}

absl::Status ShowStatus(const Options& options) {
  MT_ASSIGN_OR_RETURN(const rendezvous::ServiceStatus status,
                      rendezvous::AskForStatus(options.asked.front(), CredentialsOf(options)));
  std::cout << (options.json ? rendezvous::StatusJson(status) : rendezvous::StatusTable(status));
  return absl::OkStatus();
}

/// Of the terminal that standard output is, 0 for none.
int RowsOfTerminal() {
  winsize size = {};
  if (!isatty(STDOUT_FILENO) || ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0) return 0;
  return size.ws_row > 0 ? size.ws_row : 24;
}

/// Until the job ends; Ctrl-C ends this process.
absl::Status WatchStatus(const Options& options) {
  rendezvous::StatusWatch watch(options.json, RowsOfTerminal());
  while (!watch.over()) {
    const auto status = rendezvous::AskForStatus(options.asked.front(), CredentialsOf(options));
    if (status.ok()) {
      std::cout << watch.OnAnswer(*status, MonotonicNow()) << std::flush;
    } else {
      MT_ASSIGN_OR_RETURN(const std::string end, watch.OnSilence(status.status(), MonotonicNow()));
      if (!end.empty()) {
        std::cerr << "mtrun: " << end << std::endl;
        return absl::OkStatus();
      }
    }
    if (!watch.over()) std::this_thread::sleep_for(rendezvous::StatusWatch::kPause);
  }
  return absl::OkStatus();
}

/// The worker's standard output to this one's, its standard error likewise.
absl::Status ShowLogs(const Options& options) {
  rendezvous::LogFollower log(options.asked_rank);
  for (;;) {
    const auto part =
        rendezvous::ReadLog(options.asked, CredentialsOf(options), options.job.job_id, log.next());
    if (part.ok()) {
      const std::string news = log.OnPart(*part, MonotonicNow());
      if (!news.empty()) std::cerr << "mtrun: " << news << std::endl;
      std::cout << part->out << std::flush;
      std::cerr << part->err << std::flush;
      if (!options.follow) return absl::OkStatus();
      if (part->more) continue;
    } else if (const absl::Status over = log.OnError(part.status(), MonotonicNow()); !over.ok()) {
      if (!log.begun() || !options.follow) return over;
      std::cerr << "mtrun: " << over.message() << std::endl;
      return absl::OkStatus();
    }
    std::this_thread::sleep_for(rendezvous::LogFollower::kPause);
  }
}

absl::Status Control(const Options& options) {
  rendezvous::ControlQuestion question{.call = rendezvous::ControlCall::kStop,
                                       .job_id = options.job.job_id,
                                       .node = options.asked_node,
                                       .checkpoint = options.checkpoint,
                                       .by = rendezvous::ThisProcess()};
  if (options.act == Options::Act::kDrain) question.call = rendezvous::ControlCall::kDrain;
  if (options.act == Options::Act::kEvict) question.call = rendezvous::ControlCall::kEvict;
  MT_ASSIGN_OR_RETURN(const std::string done,
                      rendezvous::AskToControl(options.asked, CredentialsOf(options), question));
  std::cout << done << std::endl;
  return absl::OkStatus();
}

}  // namespace

absl::Status AskServices(const Options& options) {
  if (options.act == Options::Act::kTop) return RunTop(options.asked.front(), CredentialsOf(options));
  if (options.act == Options::Act::kLogs) return ShowLogs(options);
  if (options.act != Options::Act::kStatus) return Control(options);
  return options.watch ? WatchStatus(options) : ShowStatus(options);
}

}  // namespace mtrun::launcher
