#include "page/metrics.h"

#include <map>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"

namespace mtrun::page {
namespace {

using nlohmann::json;
using Labels = std::vector<std::pair<const char*, std::string>>;

struct Family {
  const char* name;
  const char* type;
  const char* help;
};

// Names end with their base unit, counters with _total.
constexpr Family kFamilies[] = {
    {"mtrun_up", "gauge", "Whether the rendezvous service answers."},
    {"mtrun_service_uptime_seconds", "gauge", "Seconds since the rendezvous service started."},
    {"mtrun_job_running", "gauge", "Whether a generation of the job runs."},
    {"mtrun_job_generation", "gauge", "Number of the job's newest generation."},
    {"mtrun_job_restarts", "gauge", "Failures used of the job's restart budget."},
    {"mtrun_job_world_size", "gauge", "Workers in the generation that runs."},
    {"mtrun_job_nodes", "gauge", "Nodes of the job by state: good, wait or bad."},
    {"mtrun_job_step", "gauge", "Finished steps of the job."},
    {"mtrun_job_step_seconds", "gauge", "Recent time of a step: the median of the workers."},
    {"mtrun_job_samples_per_second", "gauge", "Samples that the job consumes a second."},
    {"mtrun_job_loss", "gauge", "Loss of the training, the mean of the last steps."},
    {"mtrun_job_learning_rate", "gauge", "Learning rate of the training."},
    {"mtrun_node_member", "gauge", "Whether the node is in the generation that runs."},
    {"mtrun_node_silent_seconds", "gauge", "Seconds since the service last heard from the node."},
    {"mtrun_node_cpus_busy", "gauge", "Processors of the node that any process keeps busy."},
    {"mtrun_node_memory_bytes", "gauge", "Memory of the node that any process uses."},
    {"mtrun_node_memory_total_bytes", "gauge", "Memory of the node."},
    {"mtrun_worker_step", "gauge", "Finished steps as the worker counts them."},
    {"mtrun_worker_step_seconds", "gauge", "Recent time of a step of the worker."},
    {"mtrun_worker_data_wait_seconds", "gauge", "Part of a step that waits for input."},
    {"mtrun_worker_exchange_wait_seconds", "gauge", "Part of a step that waits for other workers."},
    {"mtrun_worker_cpu_seconds_total", "counter", "Processor time of the worker and its children."},
    {"mtrun_worker_memory_bytes", "gauge", "Resident memory of the worker and its children."},
    {"mtrun_gpu_busy_ratio", "gauge", "Share of time that the GPU is busy."},
    {"mtrun_gpu_memory_bytes", "gauge", "Memory of the GPU in use."},
    {"mtrun_gpu_memory_total_bytes", "gauge", "Memory of the GPU."},
    {"mtrun_gpu_temperature_celsius", "gauge", "Temperature of the GPU."},
};

class Samples {
 public:
  /// Skips values that are not numbers.
  void Add(const std::string& name, const Labels& labels, const json& value, double scale = 1) {
    if (!value.is_number() && !value.is_boolean()) return;
    const double number = value.is_boolean() ? (value.get<bool>() ? 1 : 0) : value.get<double>() * scale;
    std::string text;
    for (const auto& [label, of] : labels)
      absl::StrAppend(&text, text.empty() ? "{" : ",", label, "=\"", LabelText(of), "\"");
    if (!text.empty()) text += "}";
    absl::StrAppend(&lines_[name], name, text, " ", absl::StrFormat("%.17g", number), "\n");
  }

  std::string Text() const {
    std::string text;
    for (const Family& family : kFamilies) {
      const auto lines = lines_.find(family.name);
      if (lines == lines_.end()) continue;
      absl::StrAppend(&text, "# HELP ", family.name, " ", family.help, "\n# TYPE ", family.name, " ",
                      family.type, "\n", lines->second);
    }
    return text;
  }

 private:
  std::map<std::string, std::string> lines_;  // by family
};

std::string TextOf(const json& value) { return value.is_string() ? value.get<std::string>() : value.dump(); }

void AddWorker(const Labels& node, const json& worker, Samples* samples) {
  Labels labels = node;
  labels.emplace_back("local_rank", TextOf(worker["local_rank"]));
  labels.emplace_back("rank", worker["rank"].is_null() ? "" : TextOf(worker["rank"]));
  samples->Add("mtrun_worker_step", labels, worker["step"]);
  samples->Add("mtrun_worker_step_seconds", labels, worker["step_s"]);
  samples->Add("mtrun_worker_data_wait_seconds", labels, worker["data_wait_s"]);
  samples->Add("mtrun_worker_exchange_wait_seconds", labels, worker["exchange_wait_s"]);
  samples->Add("mtrun_worker_cpu_seconds_total", labels, worker["cpu_s"]);
  samples->Add("mtrun_worker_memory_bytes", labels, worker["memory_bytes"]);
}

void AddNode(const json& job, const json& node, Samples* samples) {
  const Labels labels = {
      {"job", TextOf(job["job"])}, {"node", TextOf(node["id"])}, {"host", TextOf(node["host"])}};
  samples->Add("mtrun_node_member", labels, !node["first_rank"].is_null());
  samples->Add("mtrun_node_silent_seconds", labels, node["silent_s"]);
  samples->Add("mtrun_node_cpus_busy", labels, node["cpus_busy"]);
  samples->Add("mtrun_node_memory_bytes", labels, node["memory_bytes"]);
  samples->Add("mtrun_node_memory_total_bytes", labels, node["memory_total_bytes"]);
  for (const json& worker : node["ranks"]) AddWorker(labels, worker, samples);
  int index = 0;
  for (const json& gpu : node["gpus"]) {
    Labels of = labels;
    of.emplace_back("gpu", absl::StrCat(index++));
    samples->Add("mtrun_gpu_busy_ratio", of, gpu["busy_percent"], 0.01);
    samples->Add("mtrun_gpu_memory_bytes", of, gpu["memory_bytes"]);
    samples->Add("mtrun_gpu_memory_total_bytes", of, gpu["memory_total_bytes"]);
    samples->Add("mtrun_gpu_temperature_celsius", of, gpu["temperature_c"]);
  }
}

void AddJob(const json& job, Samples* samples) {
  const Labels labels = {{"job", TextOf(job["job"])}};
  samples->Add("mtrun_job_running", labels, job["phase"] == "running");
  samples->Add("mtrun_job_generation", labels, job["generation"]);
  samples->Add("mtrun_job_restarts", labels, job["restarts"]);
  samples->Add("mtrun_job_world_size", labels, job["world_size"]);
  samples->Add("mtrun_job_step", labels, job["step"]);
  samples->Add("mtrun_job_step_seconds", labels, job["step_s"]);
  samples->Add("mtrun_job_samples_per_second", labels, job["samples_per_s"]);
  samples->Add("mtrun_job_loss", labels, job["loss"]);
  samples->Add("mtrun_job_learning_rate", labels, job["learning_rate"]);
  std::map<std::string, int> levels = {{"good", 0}, {"wait", 0}, {"bad", 0}};
  for (const json& node : job["nodes"]) {
    ++levels[TextOf(node["level"])];
    AddNode(job, node, samples);
  }
  for (const auto& [level, count] : levels)
    samples->Add("mtrun_job_nodes", {labels[0], {"level", level}}, count);
}

}  // namespace

std::string LabelText(const std::string& value) {
  return absl::StrReplaceAll(value, {{"\\", "\\\\"}, {"\"", "\\\""}, {"\n", "\\n"}});
}

std::string MetricsText(const json& state) {
  Samples samples;
  samples.Add("mtrun_up", {}, state["answers"]);
  samples.Add("mtrun_service_uptime_seconds", {}, state["uptime_s"]);
  for (const json& job : state["jobs"]) {
    if (job["ended_for_s"].is_null()) AddJob(job, &samples);
  }
  return samples.Text();
}

}  // namespace mtrun::page
