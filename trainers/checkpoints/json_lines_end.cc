#include "trainers/checkpoints/json_lines_end.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <limits>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "base/json_text.h"

namespace mtrun::checkpoints {
namespace {

/// Longer than a line, because the longest line would otherwise hide all lines before it.
constexpr int64_t kEndBytes = kMaxLineBytes + (64 << 10);

}  // namespace

std::optional<int64_t> StepAfter(const nlohmann::json& line) {
  const auto number = [&](const char* key) {
    return WholeNumber<int64_t>(line.value(key, nlohmann::json()));
  };
  if (const auto rewound = number("rewind")) return rewound;
  const auto step = number("step");
  return step && *step < std::numeric_limits<int64_t>::max() ? std::optional(*step + 1) : std::nullopt;
}

absl::StatusOr<JsonLinesEnd> ReadJsonLinesEnd(const std::string& path) {
  JsonLinesEnd end;
  std::error_code error;
  const auto size = static_cast<int64_t>(std::filesystem::file_size(path, error));
  if (error == std::errc::no_such_file_or_directory) return end;
  if (error) return absl::DataLossError(absl::StrCat("cannot read ", path, ": ", error.message()));
  if (size == 0) return end;
  std::ifstream file(path, std::ios::binary);
  std::string start(static_cast<size_t>(std::min<int64_t>(size, kMaxLineBytes)), '\0');
  file.read(start.data(), static_cast<std::streamsize>(start.size()));
  end.first_line = start.substr(0, start.find('\n'));
  file.clear();
  std::string passed_over;
  if (size > 2 * kEndBytes) {
    file.seekg(size - kEndBytes);
    std::getline(file, passed_over);  // the rest of a line
  } else {
    file.seekg(0);
  }
  std::stringstream rest;
  rest << file.rdbuf();
  if (!file) return absl::DataLossError(absl::StrCat("cannot read ", path));
  const std::string text = rest.str();
  size_t at = 0;
  for (size_t newline; (newline = text.find('\n', at)) != std::string::npos; at = newline + 1) {
    end.last_lines.push_back(text.substr(at, newline - at));
  }
  end.unfinished_line = text.substr(at);
  return end;
}

}  // namespace mtrun::checkpoints
