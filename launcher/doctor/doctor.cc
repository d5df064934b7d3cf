#include "launcher/doctor/doctor.h"

#include <unistd.h>

#include <algorithm>
#include <iostream>
#include <vector>

#include "base/standard_output.h"
#include "base/terminal.h"
#include "launcher/doctor/endpoint_facts.h"
#include "launcher/doctor/machine_facts.h"
#include "launcher/doctor/network_facts.h"

namespace mtrun::launcher {
namespace {

/// Every endpoint of the list that was given.
std::vector<EndpointFacts> TryEndpoints(const Options& options, const LimitFacts& limits) {
  std::vector<EndpointFacts> tried;
  for (const std::string& text : options.asked) {
    tried.push_back(Reach(ParseEndpoint(text).value_or(Endpoint{})));
    EndpointFacts& facts = tried.back();
    if (facts.answering.empty()) continue;
    facts.not_asked = "there is no room for it (open files, processes)";
    if (HasRoomToAsk(limits)) AskService({options.insecure, {options.token_file, /*weak=*/true}}, &facts);
  }
  return tried;
}

/// The port that an mtrun here would listen on as the job's host: the default without an endpoint, 0 where
/// the endpoint is another machine's, or somebody answers there.
int PortToHost(const std::vector<EndpointFacts>& endpoints) {
  if (endpoints.empty()) return kDefaultEndpointPort;
  for (const EndpointFacts& facts : endpoints)
    if (facts.here && facts.answering.empty()) return facts.endpoint.port;
  return 0;
}

}  // namespace

int RunDoctor(const Options& options, const EnvironmentMap& environment) {
  const HostFacts host = LookAtHost(options.log_dir, environment);
  const std::vector<EndpointFacts> endpoints = TryEndpoints(options, host.limits);
  const bool several = std::any_of(endpoints.begin(), endpoints.end(), [](const EndpointFacts& facts) {
    return !IsLoopback(facts.endpoint.host);
  });
  Findings findings = JudgeNode(LookAtNode(options, environment, several, PortToHost(endpoints)));
  const auto add = [&](const Findings& more) { findings.insert(findings.end(), more.begin(), more.end()); };
  add(JudgeHost(host));
  for (const EndpointFacts& facts : endpoints) add(JudgeEndpoint(facts));
  const bool colours = isatty(STDOUT_FILENO) == 1 && WantsColours(environment);
  if (const absl::Status told = PrintOut(Render(findings, colours)); !told.ok()) {
    std::cerr << "mtrun: " << told.message() << std::endl;
    return 1;
  }
  return ExitStatusOf(findings);
}

}  // namespace mtrun::launcher
