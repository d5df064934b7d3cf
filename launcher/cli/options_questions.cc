// Questions to mtrun, which then runs no program.
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/endpoint.h"
#include "base/link_zone.h"
#include "base/status_macros.h"
#include "launcher/cli/options_reading.h"
#include "launcher/cli/rdzv_conf.h"

namespace mtrun::launcher {
namespace {

/// A question to the services of a job. Its value is the endpoint, or the word before it.
struct ServiceQuestion {
  const char* name;
  bool endpoint_follows;  // --evict NODE ENDPOINT
};
constexpr ServiceQuestion kServiceQuestions[] = {{"status", false}, {"top", false},  {"drain", true},
                                                 {"evict", true},   {"stop", false}, {"logs", true}};

/// A switch that is valid only with one question.
struct Companion {
  const char* name;
  const char* question;
  bool Options::*member;
};
constexpr Companion kCompanions[] = {{"json", "status", &Options::json},
                                     {"watch", "status", &Options::watch},
                                     {"checkpoint", "stop", &Options::checkpoint},
                                     {"follow", "logs", &Options::follow}};

absl::Status WouldNotRun(absl::string_view flag, const std::string& program) {
  return absl::InvalidArgumentError(
      absl::StrCat("--", flag, " only asks; \"", program, "\" would not be run: give one or the other"));
}

absl::Status ReadEndpoints(absl::string_view question, const std::string& text, Options* options) {
  for (const absl::string_view item : absl::StrSplit(text, ',')) {
    const std::string one(absl::StripAsciiWhitespace(item)), flag = absl::StrCat("--", question);
    MT_ASSIGN_OR_RETURN(const Endpoint endpoint, Annotate(ParseLocalEndpoint(one), flag));
    MT_RETURN_IF_ERROR(Annotate(CheckZone(endpoint), flag));
    options->asked.push_back(ToText(endpoint));
  }
  return absl::OkStatus();
}

/// Reads `--evict NODE ENDPOINT`, with flags of mtrun on either side. `rest`: from the endpoint on.
absl::Status ReadWithEndpoint(const std::string& name, const std::vector<std::string>& rest,
                              Settings* settings, Options* options) {
  options->asked_node = settings->Text(name);
  if (rest.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("--", name, " ", options->asked_node,
                     " needs an ENDPOINT after it: HOST:PORT of the job's service, or a list of them"));
  }
  MT_ASSIGN_OR_RETURN(const std::vector<std::string> more,
                      settings->ParseFlags({rest.begin() + 1, rest.end()}, true));
  if (!more.empty()) return WouldNotRun(name, more.front());
  return ReadEndpoints(name, rest.front(), options);
}

/// Reads `--doctor [ENDPOINT]`, with flags on either side that set what it checks.
absl::Status ReadDoctor(const std::vector<std::string>& rest, Settings* settings, Options* options) {
  if (!rest.empty()) {
    MT_RETURN_IF_ERROR(ReadEndpoints("doctor", rest.front(), options));
    MT_ASSIGN_OR_RETURN(const std::vector<std::string> more,
                        settings->ParseFlags({rest.begin() + 1, rest.end()}, true));
    if (!more.empty()) return WouldNotRun("doctor", more.front());
  }
  return absl::OkStatus();
}

/// Returns the question to a service; null if there is none.
absl::StatusOr<const ServiceQuestion*> FindServiceQuestion(const Settings& settings) {
  const ServiceQuestion* found = nullptr;
  for (const ServiceQuestion& question : kServiceQuestions) {
    if (!settings.IsSet(question.name)) continue;
    if (found != nullptr) {
      return absl::InvalidArgumentError(
          absl::StrCat("--", found->name, " and --", question.name, " are two questions: give one of them"));
    }
    found = &question;
  }
  return found;
}

absl::Status ReadServiceQuestion(const ServiceQuestion& question, const std::vector<std::string>& rest,
                                 Settings* settings, Options* options) {
  const std::string name = question.name;
  if (question.endpoint_follows) {
    MT_RETURN_IF_ERROR(ReadWithEndpoint(name, rest, settings, options));
  } else {
    if (!rest.empty()) return WouldNotRun(name, rest.front());
    MT_RETURN_IF_ERROR(ReadEndpoints(name, settings->Text(name), options));
  }
  if (name == "logs") options->asked_rank = static_cast<int>(settings->Int("logs"));
  return absl::OkStatus();
}

}  // namespace

absl::Status ReadQuestion(const std::vector<std::string>& rest, Settings* settings, Options* options) {
  MT_ASSIGN_OR_RETURN(const ServiceQuestion* asked, FindServiceQuestion(*settings));
  if (asked != nullptr) MT_RETURN_IF_ERROR(ReadServiceQuestion(*asked, rest, settings, options));
  // A flag after the endpoint may be another question.
  MT_RETURN_IF_ERROR(FindServiceQuestion(*settings).status());
  for (const Option& option : OptionRows()) {
    const auto* asks = std::get_if<Asks>(&option.target);
    const std::string& name = option.spec.name;
    const bool is_switch = option.spec.kind == SettingSpec::Kind::kBool;
    if (asks != nullptr && (is_switch ? settings->Bool(name) : settings->IsSet(name)))
      options->act = asks->act;
  }
  for (const Companion& companion : kCompanions) {
    options->*companion.member = settings->Bool(companion.name);
    if (settings->Bool(companion.name) &&
        (asked == nullptr || companion.question != std::string(asked->name)))
      return absl::InvalidArgumentError(
          absl::StrCat("--", companion.name, " goes with --", companion.question,
                       companion.member == &Options::follow ? " RANK HOST:PORT" : " HOST:PORT"));
  }
  if (asked != nullptr && settings->Bool("doctor"))
    return absl::InvalidArgumentError(
        absl::StrCat("--", asked->name, " and --doctor are two questions: give one of them"));
  if (options->act == Options::Act::kDoctor) MT_RETURN_IF_ERROR(ReadDoctor(rest, settings, options));
  options->completion_shell = settings->Text("print_completion");
  return absl::OkStatus();
}

absl::Status ReadAskers(const Settings& settings, Options* options) {
  options->insecure = settings.Bool("insecure");
  options->token_file = settings.Text("token_file");
  for (const absl::string_view pair :
       absl::StrSplit(settings.Text("rdzv_conf"), ',', absl::SkipWhitespace())) {
    const std::pair<absl::string_view, absl::string_view> parts =
        absl::StrSplit(pair, absl::MaxSplits('=', 1));
    if (absl::StripAsciiWhitespace(parts.first) != "weak_token") continue;
    MT_RETURN_IF_ERROR(
        Annotate(ReadConfPair("weak_token", parts.second, /*fixed=*/false, options), "--rdzv_conf"));
  }
  MT_RETURN_IF_ERROR(CheckRunId(settings));
  options->job.job_id = settings.Text("rdzv_id");
  const std::string nodes = "nnodes";  // some checks are for several nodes
  if (options->act == Options::Act::kDoctor)
    MT_RETURN_IF_ERROR(ReadNodes({nodes, settings, {}, {}, {}}, options));
  options->log_dir = settings.Text("log_dir");
  options->local_addr = settings.Text("local_addr");
  MT_ASSIGN_OR_RETURN(options->port_range,
                      Annotate(ParsePortRange(settings.Text("port_range")), "--port_range"));
  return absl::OkStatus();
}

}  // namespace mtrun::launcher
