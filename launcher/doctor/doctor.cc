#include "launcher/doctor/doctor.h"

#include <unistd.h>

#include <algorithm>
#include <vector>

#include "base/standard_output.h"
#include "base/terminal.h"
#include "launcher/doctor/endpoint_facts.h"
#include "launcher/doctor/machine_facts.h"
#include "launcher/doctor/network_facts.h"
#include "launcher/doctor/program_facts.h"

namespace mtrun::launcher {
namespace {

/// Probes every given endpoint.
std::vector<EndpointFacts> TryEndpoints(const Options& options, const LimitFacts& limits) {
  std::vector<EndpointFacts> tried;
  for (const std::string& text : options.asked) {
    tried.push_back(Reach(ParseEndpoint(text).value_or(Endpoint{})));
    EndpointFacts& facts = tried.back();
    if (facts.answering.empty()) continue;
    facts.not_asked = "the limits of open files or processes do not allow it";
    if (HasRoomToAsk(limits)) AskService({options.insecure, {options.token_file, /*weak=*/true}}, &facts);
  }
  return tried;
}

/// Returns the port on which an mtrun here would listen as the job's host: the default if no endpoint is
/// given; 0 if the endpoint is on another machine or already served.
int PortToHost(const std::vector<EndpointFacts>& endpoints) {
  if (endpoints.empty()) return kDefaultEndpointPort;
  for (const EndpointFacts& facts : endpoints)
    if (facts.here && facts.answering.empty()) return facts.endpoint.port;
  return 0;
}

}  // namespace

int RunDoctor(const Options& options, const EnvironmentMap& environment,
              const std::string& executable_folder) {
  const HostFacts host = LookAtHost(options.log_dir, environment);
  const std::vector<EndpointFacts> endpoints = TryEndpoints(options, host.limits);
  // The job's host may be told localhost.
  const bool several = options.job.max_nodes > 1 ||
                       std::any_of(endpoints.begin(), endpoints.end(), [](const EndpointFacts& facts) {
                         return !IsLoopback(facts.endpoint.host);
                       });
  Findings findings = JudgeNode(LookAtNode(options, environment, several, PortToHost(endpoints)));
  const auto add = [&](const Findings& more) { findings.insert(findings.end(), more.begin(), more.end()); };
  add(JudgeHost(host));
  add(JudgePrograms(LookAtPrograms(environment, executable_folder)));
  for (const EndpointFacts& facts : endpoints) add(JudgeEndpoint(facts));
  const bool colours = isatty(STDOUT_FILENO) == 1 && WantsColours(environment);
  const int columns = TerminalSize::Of(STDOUT_FILENO).columns;
  if (const absl::Status told = PrintOut(Render(findings, colours, columns)); !told.ok()) {
    PrintError("mtrun", told.message());
    return 1;
  }
  return ExitStatusOf(findings);
}

}  // namespace mtrun::launcher
