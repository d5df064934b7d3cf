// Options about failing or hanging workers and about signals.
#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/status_macros.h"
#include "base/value_or.h"
#include "launcher/cli/options_reading.h"

namespace mtrun::launcher {
namespace {

constexpr int kTrainerRestarts = 10;
constexpr int kTrainerRefundSteps = 100;
constexpr Duration kTrainerHangTimeout = std::chrono::minutes(10);
constexpr char kGraceVariable[] = "TORCH_ELASTIC_SHUTDOWN_TIMEOUT";

absl::Status ReadGivenGrace(const OptionContext& context, Options* options) {
  if (context.settings.IsSet(context.name)) {
    options->shutdown_timeout = FromSeconds(context.settings.Double(context.name));
    return absl::OkStatus();
  }
  const std::string grace = ValueOr(context.environment, kGraceVariable);
  if (grace.empty()) return absl::OkStatus();
  double seconds = 0;
  if (!absl::SimpleAtod(grace, &seconds) || !(seconds >= 0 && seconds <= kMaxSeconds)) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "%s: \"%s\" is not allowed; it takes seconds from 0 to %.0f", kGraceVariable, grace, kMaxSeconds));
  }
  options->shutdown_timeout = FromSeconds(seconds);
  return absl::OkStatus();
}

/// Returns how long after SIGTERM this mtrun must have ended if Open MPI has started it, with a margin for
/// its own exit: mpirun waits for odls_base_sigkill_timeout, 1 s by default, and then sends SIGKILL.
std::optional<Duration> GraceOfMpirun(const EnvironmentMap& environment) {
  constexpr Duration kOwnExit = std::chrono::milliseconds(200);
  if (!environment.contains("OMPI_COMM_WORLD_RANK")) return std::nullopt;
  double seconds = 1;
  for (const char* name : {"OMPI_MCA_odls_base_sigkill_timeout", "PRTE_MCA_odls_base_sigkill_timeout"})
    if (double given = 0;
        absl::SimpleAtod(ValueOr(environment, name), &given) && given >= 1 && given <= kMaxSeconds)
      seconds = given;
  return FromSeconds(seconds) - kOwnExit;
}

}  // namespace

absl::Status ReadRestarts(const OptionContext& context, Options* options) {
  const Settings& settings = context.settings;
  const bool trainer = RunsTrainer(settings);
  options->job.max_restarts = static_cast<int>(settings.Int("max_restarts"));
  // A worker's death costs a trainer one second: the budget tolerates bad luck but not a crash loop.
  if (trainer && settings.SourceOf("max_restarts") == SettingSource::kDefault)
    options->job.max_restarts = kTrainerRestarts;
  if (trainer) options->job.refund_steps = kTrainerRefundSteps;
  return absl::OkStatus();
}

absl::Status ReadShutdownTimeout(const OptionContext& context, Options* options) {
  MT_RETURN_IF_ERROR(ReadGivenGrace(context, options));
  const std::optional<Duration> most = GraceOfMpirun(context.environment);
  if (!most || options->shutdown_timeout <= *most) return absl::OkStatus();
  options->notes.push_back(absl::StrCat("--shutdown_timeout is ", HumanDuration(*most), " instead of ",
                                        HumanDuration(options->shutdown_timeout),
                                        ": Open MPI kills mtrun soon after SIGTERM (mpirun --mca "
                                        "odls_base_sigkill_timeout 30 gives it longer)"));
  options->shutdown_timeout = *most;
  return absl::OkStatus();
}

/// A program that reports no progress cannot be watched; --hang_timeout declares that it does report.
absl::Status ReadHangNotice(const OptionContext& context, Options* options) {
  const Settings& settings = context.settings;
  if (RunsTrainer(settings) || settings.IsSet("hang_timeout"))
    options->hang_notice = FromSeconds(settings.Double("hang_notice"));
  return absl::OkStatus();
}

absl::Status ReadHangTimeout(const OptionContext& context, Options* options) {
  const Settings& settings = context.settings;
  if (settings.IsSet("hang_timeout")) {
    options->hang_timeout = FromSeconds(settings.Double("hang_timeout"));
  } else if (RunsTrainer(settings)) {
    options->hang_timeout = kTrainerHangTimeout;
  }
  return absl::OkStatus();
}

absl::Status ReadSignals(const OptionContext& context, Options* options) {
  const Settings& settings = context.settings;
  std::vector<std::string> unknown;
  SignalPlan& plan = options->signals;
  plan.forward = ParseSignals(settings.Text("signals_to_forward"), &unknown);
  if (settings.IsSet("signals_to_handle")) {
    plan.stop_text = settings.Text("signals_to_handle");
    plan.stop = ParseSignals(plan.stop_text, &unknown);
    plan.stop_is_default = false;
  }
  for (const std::string& name : unknown) {
    options->notes.push_back(absl::StrCat(
        "no handler for \"", name, "\": it is not a signal that can be handled (SIGTERM, SIGUSR1, ...)"));
  }
  // A signal that is only forwarded must not stop anything.
  std::erase_if(plan.stop,
                [&](int signal) { return std::ranges::find(plan.forward, signal) != plan.forward.end(); });
  return absl::OkStatus();
}

}  // namespace mtrun::launcher
