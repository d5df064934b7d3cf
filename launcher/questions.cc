#include "launcher/questions.h"

#include <iostream>

#include "base/status_macros.h"
#include "rendezvous/control_client.h"
#include "rendezvous/status_client.h"

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
  return options.act == Options::Act::kStatus ? ShowStatus(options) : Control(options);
}

}  // namespace mtrun::launcher
