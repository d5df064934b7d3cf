#include "launcher/questions.h"

#include <unistd.h>

#include <iostream>
#include <thread>

#include "base/clock.h"
#include "base/standard_output.h"
#include "base/status_macros.h"
#include "base/terminal.h"
#include "launcher/top.h"
#include "rendezvous/client/control_client.h"
#include "rendezvous/client/end_watch.h"
#include "rendezvous/client/job_finder.h"
#include "rendezvous/client/log_client.h"
#include "rendezvous/client/status_client.h"
#include "rendezvous/client/status_watch.h"
#include "rendezvous/client/unary_call.h"

namespace mtrun::launcher {
namespace {

/// Accepts weak tokens: the client did not choose the cluster's token.
rendezvous::Credentials CredentialsOf(const Options& options) {
  return {options.insecure, {options.token_file, /*weak=*/true}};
}

rendezvous::JobFinder FinderOf(const Options& options) {
  return {options.asked, [credentials = CredentialsOf(options)](const std::string& endpoint) {
            return rendezvous::AskForStatus(endpoint, credentials);
          }};
}

absl::Status ShowStatus(const Options& options) {
  MT_ASSIGN_OR_RETURN(const rendezvous::ServiceStatus status, FinderOf(options).Find());
  return PrintOut(options.json ? rendezvous::StatusJson(status) : rendezvous::StatusTable(status));
}

/// Prints until the job ends; Ctrl-C ends this process.
absl::Status WatchStatus(const Options& options) {
  MT_ASSIGN_OR_RETURN(const std::string token, rendezvous::TokenOf(CredentialsOf(options)));
  rendezvous::StatusWatch watch(options.json, TerminalSize::Of(STDOUT_FILENO).rows);
  rendezvous::JobFinder job = FinderOf(options);
  rendezvous::EndWatch end(options.insecure, token);
  while (true) {
    auto status = job.Find();
    const absl::Status silence = status.status();
    if (const auto ended = end.Ended(); ended && !silence.ok()) status = *ended;
    if (status.ok()) {
      MT_RETURN_IF_ERROR(PrintOut(watch.OnAnswer(*status, MonotonicNow())));
    } else {
      MT_RETURN_IF_ERROR(watch.OnSilence(silence, MonotonicNow()));
    }
    if (watch.over()) return absl::OkStatus();
    if (silence.ok() && !job.where().empty()) end.Follow(job.where());
    std::this_thread::sleep_for(rendezvous::StatusWatch::kPause);
  }
}

/// Returns the result if a followed log has ended for the reason `why`: OK if the job has ended.
absl::Status EndOfLog(const rendezvous::LogFollower& log, const absl::Status& why,
                      rendezvous::JobFinder& job) {
  const absl::StatusOr<rendezvous::ServiceStatus> found = job.Find();
  if (!found.ok())
    return rendezvous::LostJobError(HumanDuration(log.silence(MonotonicNow())), found.status());
  if (!rendezvous::AllEnded(*found)) return why;
  PrintError("mtrun", why.message());
  return absl::OkStatus();
}

/// Copies the worker's standard output to this process's, and its standard error likewise.
absl::Status ShowLogs(const Options& options) {
  MT_ASSIGN_OR_RETURN(const std::string token, rendezvous::TokenOf(CredentialsOf(options)));
  rendezvous::LogFollower log(options.asked_rank, rendezvous::ThisProcess());
  rendezvous::JobFinder job = FinderOf(options);
  rendezvous::EndWatch end(options.insecure, token);
  for (;;) {
    std::string where;
    const auto part = rendezvous::ReadLogWith(job.InOrder(), options.insecure, token, options.job.job_id,
                                              log.next(), &where);
    if (part.ok()) {
      const std::string news = log.OnPart(*part, MonotonicNow());
      if (!news.empty()) PrintError("mtrun", news);
      MT_RETURN_IF_ERROR(PrintOut(part->out));
      std::cerr << part->err << std::flush;
      if (!options.follow) return absl::OkStatus();
      job.StayWith(where);
      end.Follow(where);
      if (part->more) continue;
    } else if (!log.begun()) {
      return part.status();
    } else if (end.Ended()) {
      const bool told = absl::IsFailedPrecondition(part.status());  // the service is still there and said so
      PrintError("mtrun", told ? part.status().message() : "the job has ended");
      return absl::OkStatus();
    } else if (const absl::Status over = log.OnError(part.status(), MonotonicNow()); !over.ok()) {
      return EndOfLog(log, over, job);
    }
    std::this_thread::sleep_for(rendezvous::LogFollower::kPause);
  }
}

absl::Status Control(const Options& options) {
  rendezvous::ControlKind what = rendezvous::StopCall();
  if (options.act == Options::Act::kDrain) what = rendezvous::DrainCall();
  if (options.act == Options::Act::kEvict) what = rendezvous::EvictCall();
  const rendezvous::ControlQuestion question{Filled(what, options.asked_node, options.checkpoint),
                                             options.job.job_id, rendezvous::ThisProcess()};
  MT_ASSIGN_OR_RETURN(const std::string done,
                      rendezvous::AskToControl(options.asked, CredentialsOf(options), question));
  return PrintOut(done + "\n", /*indent=*/2);
}

}  // namespace

absl::Status AskServices(const Options& options) {
  if (options.act == Options::Act::kTop) return RunTop(options.asked, CredentialsOf(options));
  if (options.act == Options::Act::kLogs) return ShowLogs(options);
  if (options.act != Options::Act::kStatus) return Control(options);
  return options.watch ? WatchStatus(options) : ShowStatus(options);
}

}  // namespace mtrun::launcher
