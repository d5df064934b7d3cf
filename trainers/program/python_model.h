// The networks in Python: model.py of an exported folder, which needs PyTorch alone.
#pragma once

#include <string>
#include <string_view>

namespace mtrun::trainers {

/// The text for a program; `classifies`: with functions that read and classify image files. REQUIRES: it is
/// one of mtrun's own.
std::string PythonModel(std::string_view program, bool classifies);

}  // namespace mtrun::trainers
