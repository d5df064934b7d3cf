// --export: a trained network as a folder that plain PyTorch reads.
#include <string>

#include "absl/strings/str_cat.h"
#include "base/log.h"
#include "base/posix.h"
#include "base/status_macros.h"
#include "nlohmann/json.hpp"
#include "trainers/program/modes.h"
#include "trainers/program/python_model.h"
#include "trainers/program/trained_network.h"
#include "trainers/run/loop/best_weights.h"

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

}  // namespace

absl::StatusOr<int> ExportMode(Run& run) {
  const Program& program = run.program;
  const std::string folder = run.settings.Text("export"), named = run.settings.Text("weights_of");
  MT_ASSIGN_OR_RETURN(const TrainedNetwork network,
                      OpenTrained(run, named.empty() ? run.settings.Text("model_folder") : named));
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
  return 0;
}

}  // namespace mtrun::trainers
