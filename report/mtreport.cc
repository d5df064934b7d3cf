// mtreport: makes a page about finished, stopped or running runs, from their folders alone.
#include <chrono>
#include <filesystem>
#include <iostream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/clock.h"
#include "base/file_limit.h"
#include "base/folder_names.h"
#include "base/help_page.h"
#include "base/log.h"
#include "base/posix.h"
#include "base/settings.h"
#include "base/standard_output.h"
#include "base/status_macros.h"
#include "base/version.h"
#include "report/assets.h"
#include "report/html.h"
#include "report/page.h"
#include "report/plots.h"
#include "report/read_run.h"
#include "report/result_file.h"
#include "report/run_list.h"

namespace mtrun::report {
namespace {

constexpr int kFailure = 1, kUsage = 2;

HelpPage Help() {
  return {.purpose = "Makes a page about training runs: curves, classes, timeline, checkpoints, settings.",
          .usage = {"mtreport RUN... [flags]", "mtreport list [FOLDER...]", "mtreport compare RUN RUN..."},
          .examples = {{"one run: writes runs/cnnA/report.html", "mtreport runs/cnnA"},
                       {"two runs on one page", "mtreport runs/alone runs/four --out both.html"},
                       {"only the page, without plots", "mtreport runs/cnnA --out cnnA.html --no_plots"},
                       {"all runs: best figures, states, settings that differ", "mtreport list runs"},
                       {"two runs side by side", "mtreport compare runs/alone runs/four"}},
          .notes =
              "RUN is a --model_folder of a trainer, complete or not, of this release or an earlier\n"
              "one. The page is one file that loads nothing from the network. With one run, mtreport\n"
              "also writes accuracy_plot.png, training_metrics.png, and results.csv with a line an\n"
              "epoch.\n"};
}

std::vector<SettingSpec> Specs() {
  SettingSpec out = TextSpec("out", "FILE", "File to write the page to.");
  out.otherwise = "report.html in the run's folder";
  SettingSpec help = SwitchSpec("help", "false", "Print this text.");
  help.letter = 'h';
  return {out,
          SwitchSpec("plots", "true", "Also write the plots and results.csv."),
          SwitchSpec("result_file", "false",
                     "Also write a complete run's figures as {batch}_{epochs}_{nodes}_{gpus}.txt."),
          SwitchSpec("quiet", "false", "Print only errors."),
          help,
          SwitchSpec("version", "false", "Print the version.")};
}

int Fail(int status, const std::string& text) {
  PrintError("mtreport", text);
  return status;
}

constexpr size_t kListIndent = 8;

/// Prints an answer on standard output, its wrapped lines with `indent`, and returns the exit status.
int Say(const std::string& text, size_t indent = 0) {
  const absl::Status told = PrintOut(text, indent);
  return told.ok() ? 0 : Fail(kFailure, std::string(told.message()));
}

/// Takes the runs from the arguments.
absl::StatusOr<std::vector<std::string>> RunsOf(Settings& settings, const std::vector<std::string>& args) {
  MT_ASSIGN_OR_RETURN(std::vector<std::string> runs, settings.ParseWords(args));
  if (runs.empty()) return absl::InvalidArgumentError("give the --model_folder of a run (see --help)");
  return runs;
}

/// Writes the plots, the epochs and, if `result_file`, the result file, and returns their names.
absl::StatusOr<std::vector<std::string>> WriteBeside(const RunRecord& run, const std::string& folder,
                                                     bool result_file) {
  std::vector<std::string> written;
  const auto plot = [&](const std::vector<Panel>& panels, const std::string& name) -> absl::Status {
    if (panels.empty()) return absl::OkStatus();
    const absl::Status status = WritePlot(panels, folder + "/" + name);
    if (absl::IsUnimplemented(status)) return absl::OkStatus();
    if (status.ok()) written.push_back(name);
    return status;
  };
  MT_RETURN_IF_ERROR(plot(AccuracyPlot(run), "accuracy_plot.png"));
  MT_RETURN_IF_ERROR(plot(MetricsPlot(run), "training_metrics.png"));
  if (!run.epochs.empty()) {
    written.emplace_back("results.csv");
    MT_RETURN_IF_ERROR(WriteFileAtomically(folder + "/results.csv", EpochsCsv(run)));
  }
  if (run.result && result_file) {
    written.push_back(ResultFileName(*run.result));
    MT_RETURN_IF_ERROR(
        WriteFileAtomically(absl::StrCat(folder, "/", written.back()), ResultFileText(run, *run.result)));
  }
  return written;
}

absl::Status Report(const Settings& settings, const std::vector<std::string>& folders) {
  std::vector<RunRecord> runs;
  for (const std::string& folder : folders) {
    MT_ASSIGN_OR_RETURN(RunRecord run, ReadRun(folder));
    runs.push_back(std::move(run));
  }
  std::string out = settings.Text("out");
  if (out.empty() && folders.size() > 1)
    return absl::InvalidArgumentError("with several runs, give --out FILE");
  if (out.empty()) out = folders[0] + "/report.html";
  const std::string clock = WallClockText();
  const std::string made = absl::StrCat(clock.substr(0, 10), " ", clock.substr(11, 5), " UTC");
  const std::string page = Page(runs, made);
  MT_RETURN_IF_ERROR(WriteFileAtomically(out, page));
  const bool quiet = settings.Bool("quiet");
  if (!quiet) std::cout << absl::StrFormat("%s  %s\n", out, html::Bytes(static_cast<int64_t>(page.size())));
  if (!quiet && ChartLibrary().empty())
    std::cerr
        << "mtreport: built without Chart.js (Debian: libjs-chart.js): the page has tables but no curves\n";
  if (runs.size() > 1 || !settings.Bool("plots")) return absl::OkStatus();
  const std::string folder = std::filesystem::absolute(out).parent_path();
  MT_ASSIGN_OR_RETURN(const std::vector<std::string> written,
                      WriteBeside(runs[0], folder, settings.Bool("result_file")));
  for (const std::string& name : written) {
    if (!quiet) std::cout << (std::filesystem::path(out).parent_path() / name).string() << "\n";
  }
  return absl::OkStatus();
}

double AgeOf(const std::string& folder) {
  std::error_code none;
  const auto changed = std::filesystem::last_write_time(folder + "/metrics.jsonl", none);
  if (none) return 0;
  return std::chrono::duration<double>(std::filesystem::file_time_type::clock::now() - changed).count();
}

/// Reads the runs among `folders`, and those directly in the others.
absl::StatusOr<std::vector<ListedRun>> RunsIn(const std::vector<std::string>& folders) {
  std::vector<ListedRun> runs;
  for (const std::string& folder : folders) {
    if (absl::StatusOr<RunRecord> run = ReadRun(folder); run.ok()) {
      runs.push_back({folder, *std::move(run), AgeOf(folder)});
      continue;
    }
    const size_t before = runs.size();
    std::error_code error;
    for (const std::string& name : NamesIn(folder, &error)) {
      const std::string path = (std::filesystem::path(folder) / name).string();
      if (absl::StatusOr<RunRecord> run = ReadRun(path); run.ok())
        runs.push_back({path, *std::move(run), AgeOf(path)});
    }
    if (error) return absl::NotFoundError(absl::StrCat(folder, ": ", error.message()));
    if (runs.size() == before) return absl::NotFoundError(absl::StrCat(folder, " has no run folders"));
  }
  return runs;
}

/// Prints a list or a comparison. `folders` follow the word.
absl::StatusOr<std::string> Answer(const std::string& word, std::vector<std::string> folders) {
  if (word == "list" && folders.empty()) folders = {"runs"};
  if (word == "compare" && folders.size() < 2)
    return absl::InvalidArgumentError("give two runs or more: mtreport compare runs/cnnA runs/cnnA-2");
  MT_ASSIGN_OR_RETURN(std::vector<ListedRun> runs, RunsIn(folders));
  return word == "list" ? ListText(std::move(runs)) : CompareText(runs);
}

int Run(const std::vector<std::string>& args) {
  for (const std::string& arg : args) {
    if (arg != "--help" && arg != "-h") continue;
    return Say(HelpText(Help(), Settings("mtreport", Specs()).Help()));
  }
  Settings settings("mtreport", Specs());
  if (args == std::vector<std::string>{"--version"}) return Say(VersionLine("mtreport") + "\n");
  const auto runs = RunsOf(settings, args);
  if (!runs.ok()) return Fail(kUsage, std::string(runs.status().message()));
  std::error_code none;
  const std::string& first = runs->front();
  if ((first == "list" || first == "compare") && !std::filesystem::exists(first, none)) {
    const auto text = Answer(first, {runs->begin() + 1, runs->end()});
    if (text.ok()) return Say(*text, kListIndent);
    return Fail(absl::IsInvalidArgument(text.status()) ? kUsage : kFailure,
                std::string(text.status().message()));
  }
  const absl::Status done = Report(settings, *runs);
  if (done.ok()) return 0;
  return Fail(absl::IsInvalidArgument(done) ? kUsage : kFailure, std::string(done.message()));
}

}  // namespace
}  // namespace mtrun::report

int main(int argc, char** argv) {
  mtrun::SurviveSizeLimit();
  mtrun::log::SetUp("mtreport", mtrun::log::Level::kInfo);
  return mtrun::report::Run({argv + 1, argv + argc});
}
