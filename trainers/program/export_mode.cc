// --export: a trained network as a folder that plain PyTorch reads.
#include <cstdlib>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/log.h"
#include "base/posix.h"
#include "base/status_macros.h"
#include "nlohmann/json.hpp"
#include "trainers/program/modes.h"
#include "trainers/program/python_model.h"
#include "trainers/program/run_command.h"
#include "trainers/program/trained_network.h"

namespace mtrun::trainers {
namespace {

nlohmann::json Config(const TrainedNetwork& network) {
  const Description& d = network.description;
  const datasets::ImageSize target = d.target(), shape = d.shape();
  nlohmann::json config = {{"program", d.program},
                           {"weights", network.source.what},
                           {"classes", d.classes},
                           {"image_size", d.image_size},
                           {"input_size", d.input_size},
                           {"target_size", {target.height, target.width}},
                           {"shape", {shape.height, shape.width}},
                           {"part", d.part},
                           {"upright", d.turns()},
                           {"pixels", kPixelRule}};
  for (const auto& [name, text] : d.settings) config[name] = text;
  return config;
}

/// Returns the Python that users have chosen, as mtrun does for their programs.
std::string PythonFor(const EnvironmentMap& environment) {
  if (const auto chosen = environment.find("PYTHON_EXEC"); chosen != environment.end()) return chosen->second;
  const auto venv = environment.find("VIRTUAL_ENV");
  return venv != environment.end() ? venv->second + "/bin/python" : "python3";
}

/// Runs the exported model.py, which writes model.onnx and compares it.
absl::Status ExportOnnx(const std::string& folder, const EnvironmentMap& environment) {
  unsetenv("LD_LIBRARY_PATH");  // names this program's LibTorch; Python has its own
  const std::string python = PythonFor(environment);
  MT_ASSIGN_OR_RETURN(const int status,
                      RunCommand({python, "-B", folder + "/model.py", "--onnx"}, std::nullopt));
  if (status == 0) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      "--onnx: ", python, " ", folder, "/model.py --onnx ended with ", status,
      "; it needs PyTorch, safetensors and onnx in one Python: PYTHON_EXEC chooses another one"));
}

}  // namespace

absl::StatusOr<int> ExportMode(Run& run) {
  const Program& program = run.program;
  const std::string folder = run.settings.Text("export");
  MT_ASSIGN_OR_RETURN(const TrainedNetwork network, OpenTrained(run));
  MT_ASSIGN_OR_RETURN(const std::string python,
                      PythonModel(program.name, program.python, network.task->classes() > 0));
  if (Asked(run.settings, "check") || run.assignment.rank != 0) return 0;
  MT_RETURN_IF_ERROR(CheckWritable(folder));
  MT_RETURN_IF_ERROR(SaveTensors(folder + "/model.safetensors", StateDict(network.task->module()),
                                 ToMetadata(network.description)));
  const nlohmann::json config = Config(network);
  MT_RETURN_IF_ERROR(WriteFileAtomically(
      folder + "/model.json", config.dump(1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n"));
  MT_RETURN_IF_ERROR(WriteFileAtomically(folder + "/model.py", python));
  log::Info(network.source.what, " is exported to ", folder, ": model.safetensors, model.py, model.json");
  if (Asked(run.settings, "onnx")) MT_RETURN_IF_ERROR(ExportOnnx(folder, run.environment));
  return 0;
}

}  // namespace mtrun::trainers
