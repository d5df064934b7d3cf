#include "trainers/program/python_model.h"

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "base/string_view.h"
#include "trainers/program/python_text.inc"  // made by CMake of python/*.py

namespace mtrun::trainers {
namespace {

std::string NetworkOf(std::string_view program) {
  if (program == "cnnA") return kPython_cnnA;
  if (program == "cnnB") return absl::StrCat(kPython_resnet, kPython_cnnB);
  if (program == "resnet18") return absl::StrCat(kPython_resnet, kPython_resnet18);
  if (program == "vit") return kPython_vit;
  if (program == "diffusion") return kPython_diffusion;
  MT_CHECK(false) << "no Python for " << View(program);
  return "";
}

}  // namespace

std::string PythonModel(std::string_view program, bool classifies) {
  return absl::StrCat("\"\"\"The network of mtrun's ", View(program),
                      " in plain PyTorch: load() gives it with its weights.", "\"\"\"\n\n", kPython_head,
                      NetworkOf(program), kPython_tail, classifies ? kPython_classify : "");
}

}  // namespace mtrun::trainers
