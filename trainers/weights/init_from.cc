#include "trainers/weights/init_from.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/json_text.h"
#include "base/posix.h"
#include "base/status_macros.h"
#include "base/utf8.h"
#include "nlohmann/json.hpp"
#include "trainers/weights/file_kind.h"
#include "trainers/weights/pth_layout.h"
#include "trainers/weights/pth_reader.h"
#include "trainers/weights/state_dict.h"
#include "trainers/weights/wrapper_names.h"

namespace mtrun::trainers {
namespace {

constexpr size_t kMaxIndex = 64 << 20;

absl::StatusOr<NamedTensors> LoadFile(const std::string& path) {
  MT_ASSIGN_OR_RETURN(const std::string start, ReadFileStart(path, kPthStartBytes));
  if (LooksLikePth(start)) return LoadPth(path);
  if (const std::string kind = OtherKind(start); !kind.empty())
    return absl::InvalidArgumentError(absl::StrCat(path, ": ", kind));
  return LoadTensors(path);
}

/// Reads {"weight_map": {tensor: file}}: the files beside the index, by the tensors that they must hold.
absl::StatusOr<std::map<std::string, std::set<std::string>>> ReadIndex(const std::string& path) {
  MT_ASSIGN_OR_RETURN(const std::string text, ReadFile(path));
  MT_ASSIGN_OR_RETURN(const nlohmann::json index, ParseJsonObject(text, kMaxIndex));
  const auto map = index.find("weight_map");
  if (map == index.end() || !map->is_object() || map->empty())
    return absl::InvalidArgumentError("an index of weights has a weight_map of tensors and files");
  std::map<std::string, std::set<std::string>> files;
  for (const auto& [tensor, file] : map->items()) {
    const std::string name = file.is_string() ? file.get<std::string>() : "";
    if (name.empty() || name.find('/') != std::string::npos || name == "..")
      return absl::InvalidArgumentError(absl::StrCat("no file beside it is named for ", AsPlainText(tensor)));
    files[name].insert(tensor);
  }
  return files;
}

absl::StatusOr<NamedTensors> LoadIndexed(const std::string& path) {
  MT_ASSIGN_OR_RETURN(const auto index, Annotate(ReadIndex(path), path));
  NamedTensors all;
  for (const auto& [name, tensors] : index) {
    const std::string file = (std::filesystem::path(path).parent_path() / name).string();
    MT_ASSIGN_OR_RETURN(NamedTensors loaded, LoadFile(file));
    size_t found = 0;
    for (auto& item : loaded) {
      if (tensors.count(item.first) == 0) continue;
      all.push_back(std::move(item));
      ++found;
    }
    if (found != tensors.size())
      return absl::InvalidArgumentError(
          absl::StrCat(path, ": ", file, " has only ", found, " of its ", tensors.size(), " tensors"));
  }
  return all;
}

bool IsCounter(const std::string& name) {
  return name == "num_batches_tracked" || absl::EndsWith(name, ".num_batches_tracked");
}

/// Returns whether the tensors with names that begin with `prefix` are the same in both, shapes included.
bool Fits(const std::map<std::string, at::Tensor>& file, const NamedTensors& model,
          const std::string& prefix) {
  const auto ours = [&](const auto& item) { return absl::StartsWith(item.first, prefix); };
  const auto fits = [&](const auto& item) {
    const auto found = file.find(item.first);
    return !ours(item) || (found != file.end() && found->second.sizes() == item.second.sizes());
  };
  return std::count_if(file.begin(), file.end(), ours) == std::count_if(model.begin(), model.end(), ours) &&
         std::all_of(model.begin(), model.end(), fits);
}

/// Returns the text "NAME has NaN in 3 of its 64 values" for the first tensor that has any, or "".
std::string NotNumbers(const std::map<std::string, at::Tensor>& file, const torch::nn::Module& module) {
  const auto parameters = module.named_parameters();
  for (const auto& [name, tensor] : file) {
    if (!tensor.is_floating_point()) continue;
    const at::Tensor values = tensor.element_size() < 4 ? tensor.to(at::kFloat) : tensor;
    int64_t bad = values.isnan().sum().item<int64_t>();
    const char* kind = "NaN";
    if (bad == 0 && parameters.contains(name)) {  // a buffer can be a mask of infinities
      bad = values.isinf().sum().item<int64_t>();
      kind = "infinity";
    }
    if (bad > 0)
      return absl::StrCat(name, " has ", kind, " in ", bad, " of its ", tensor.numel(),
                          tensor.numel() == 1 ? " value" : " values");
  }
  return "";
}

}  // namespace

std::set<std::string> NamesOf(const torch::nn::Module& module) {
  std::set<std::string> names;
  for (const auto& item : StateDict(module)) names.insert(item.first);
  return names;
}

absl::StatusOr<NamedTensors> LoadWeights(const std::string& path, const std::set<std::string>& wanted) {
  MT_ASSIGN_OR_RETURN(NamedTensors loaded,
                      absl::EndsWith(path, ".index.json") ? LoadIndexed(path) : LoadFile(path));
  std::erase_if(loaded, [](const auto& item) { return IsExtraState(item.first); });
  std::vector<std::string> names;
  for (const auto& item : loaded) names.push_back(item.first);
  const auto shorter = WithoutWrappers(names, wanted);
  NamedTensors weights;
  for (size_t i = 0; i < loaded.size(); ++i) {
    if (shorter[i]) weights.emplace_back(*shorter[i], std::move(loaded[i].second));
  }
  return weights;
}

absl::Status CopyInto(const NamedTensors& loaded, const torch::nn::Module& module,
                      const std::string& last_layer) {
  std::map<std::string, at::Tensor> file(loaded.begin(), loaded.end());
  NamedTensors model = StateDict(module);
  if (!last_layer.empty() && !Fits(file, model, last_layer)) {
    const auto of_layer = [&](const auto& item) { return absl::StartsWith(item.first, last_layer); };
    std::erase_if(file, of_layer);
    std::erase_if(model, of_layer);
  }
  std::erase_if(model,
                [&](const auto& item) { return IsCounter(item.first) && file.count(item.first) == 0; });
  for (auto& [name, tensor] : file) {
    if (IsCounter(name) && tensor.numel() == 1) tensor = tensor.reshape({});
  }
  if (const std::string bad = NotNumbers(file, module); !bad.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        bad, ": the file is damaged, or the run that wrote it had diverged; take an earlier one"));
  }
  const absl::Status copied = CopyTensors({file.begin(), file.end()}, model);
  if (copied.ok()) return copied;
  return absl::InvalidArgumentError(
      absl::StrCat("it does not contain this model's weights: ", copied.message()));
}

absl::Status InitFrom(const std::string& path, const torch::nn::Module& module, const std::string& flag,
                      const std::string& last_layer) {
  MT_ASSIGN_OR_RETURN(const NamedTensors loaded, Annotate(LoadWeights(path, NamesOf(module)), flag));
  return Annotate(CopyInto(loaded, module, last_layer), absl::StrCat(flag, " ", path));
}

}  // namespace mtrun::trainers
