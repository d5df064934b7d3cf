#include "trainers/program/python_model.h"

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "base/string_view.h"

namespace mtrun::trainers {
namespace {

struct PythonFile {
  std::string_view name;
  std::string_view text;
};

constexpr PythonFile kPythonFiles[] = {
#include "trainers/program/python_text.inc"  // made by CMake of python/*.py
};

absl::StatusOr<std::string> TextOf(std::string_view name) {
  for (const PythonFile& file : kPythonFiles) {
    if (file.name == name) return std::string(file.text);
  }
  return absl::NotFoundError(absl::StrCat("there is no ", View(name), ".py in trainers/program/python"));
}

}  // namespace

absl::StatusOr<std::string> PythonModel(std::string_view program, const std::vector<std::string>& files,
                                        bool classifies) {
  std::vector<std::string> all = {"head"};
  all.insert(all.end(), files.begin(), files.end());
  if (files.empty()) all.emplace_back(program);
  all.insert(all.end(), {"tail", "onnx"});
  if (classifies) all.push_back("classify");
  std::string text = absl::StrCat("\"\"\"The network of mtrun's ", View(program),
                                  " in plain PyTorch: load() returns it with its weights.", "\"\"\"\n\n");
  for (const std::string& name : all) {
    MT_ASSIGN_OR_RETURN(const std::string part,
                        Annotate(TextOf(name), absl::StrCat("--export needs the network of ", View(program),
                                                            " in Python; its author has to add it")));
    text += part;
  }
  return text;
}

}  // namespace mtrun::trainers
