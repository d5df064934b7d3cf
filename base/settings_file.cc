#include "base/settings_file.h"

#include <map>
#include <optional>
#include <sstream>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/nearest_name.h"
#include "base/posix.h"
#include "base/status_macros.h"
#include "base/string_view.h"
#include "base/utf8.h"
#include "yaml-cpp/eventhandler.h"
#include "yaml-cpp/yaml.h"

namespace mtrun {
namespace {

/// Returns the text of `key: value`, where the value is a scalar or a list of scalars.
absl::StatusOr<std::string> ScalarText(const YAML::Node& node, const std::string& where) {
  if (node.IsScalar()) return node.Scalar();
  if (node.IsNull()) return std::string();
  std::vector<std::string> parts;
  if (node.IsSequence()) {
    for (const YAML::Node& item : node) {
      if (!item.IsScalar()) break;
      parts.push_back(item.Scalar());
    }
    if (parts.size() == node.size()) return absl::StrJoin(parts, ",");
  }
  return absl::InvalidArgumentError(absl::StrCat(where, ": expected a single value or a list of values"));
}

/// Returns "path:line" of a node.
std::string LineOf(const std::string& path, const YAML::Node& node) {
  return absl::StrCat(path, ":", node.Mark().line + 1);
}

/// Finds the content of a second document. YAML::LoadAll of yaml-cpp 0.7 makes documents without end of some
/// damaged files.
class SecondDocument : public YAML::EventHandler {
 public:
  /// Returns its line, counted from 1; nullopt if there is one document.
  std::optional<int> line() const { return line_; }

  void OnDocumentStart(const YAML::Mark&) override { ++documents_; }
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark& mark, YAML::anchor_t) override { Begin(mark); }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t) override { Begin(mark); }
  void OnScalar(const YAML::Mark& mark, const std::string&, YAML::anchor_t, const std::string&) override {
    Begin(mark);
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t,
                       YAML::EmitterStyle::value) override {
    Begin(mark);
  }
  void OnSequenceEnd() override {}
  void OnMapStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t,
                  YAML::EmitterStyle::value) override {
    Begin(mark);
  }
  void OnMapEnd() override {}

 private:
  void Begin(const YAML::Mark& mark) {
    if (documents_ == 2 && !line_) line_ = mark.line + 1;
  }

  int documents_ = 0;
  std::optional<int> line_;
};

absl::StatusOr<YAML::Node> LoadYaml(const std::string& path) {
  MT_ASSIGN_OR_RETURN(const std::string text, ReadFile(path));
  // yaml-cpp 0.7 takes a file with zero bytes for UTF-16 or UTF-32, and does not end for some that are neither.
  if (!IsUtf8(text) || absl::StrContains(text, '\0'))
    return absl::InvalidArgumentError(absl::StrCat(path, ": not a text in UTF-8; save it as UTF-8"));
  try {
    SecondDocument second;
    std::istringstream stream(text);
    for (YAML::Parser parser(stream); !second.line() && parser.HandleNextDocument(second);) continue;
    if (second.line()) {
      return absl::InvalidArgumentError(
          absl::StrCat(path, ":", *second.line(),
                       ": a second YAML document begins here (after \"---\"): put all sections into one"));
    }
    const YAML::Node root = YAML::Load(text);
    if (!root.IsMap() && !root.IsNull()) {
      return absl::InvalidArgumentError(
          absl::StrCat(path, ": the file must contain sections (\"name:\" and indented keys)"));
    }
    return root;
  } catch (const YAML::Exception& error) {
    return absl::InvalidArgumentError(absl::StrCat(path, ":", error.mark.line + 1, ": ", error.msg));
  }
}

absl::StatusOr<std::vector<FileSetting>> ReadKeys(const YAML::Node& section, const std::string& path) {
  std::vector<FileSetting> settings;
  for (const auto& item : section) {
    const std::string where = LineOf(path, item.first);
    MT_ASSIGN_OR_RETURN(const std::string text, ScalarText(item.second, where));
    settings.push_back({item.first.Scalar(), text, where, item.first.Mark().line + 1});
  }
  return settings;
}

absl::Status NoSection(const std::string& where, const std::string& key, std::string_view section) {
  if (key == section)
    return absl::InvalidArgumentError(absl::StrCat(where, ": section \"", key, "\" has no keys"));
  return absl::InvalidArgumentError(absl::StrCat(
      where, ": \"", key, "\" is outside any section; indent it under \"", View(section), ":\""));
}

}  // namespace

absl::StatusOr<std::vector<FileSetting>> ReadSettingsFile(const std::string& path, std::string_view section,
                                                          MissingSectionNote& note) {
  MT_ASSIGN_OR_RETURN(const YAML::Node root, LoadYaml(path));
  std::string near;  // location of a section with almost this name
  std::vector<std::string> others;
  std::map<std::string, int> lines;  // sections seen so far
  std::vector<FileSetting> settings;
  bool found = false;
  for (const auto& item : root) {
    const std::string key = item.first.Scalar();
    const std::string where = LineOf(path, item.first);
    others.push_back(key);
    if (const auto [first, is_new] = lines.emplace(key, item.first.Mark().line + 1); !is_new) {
      return absl::InvalidArgumentError(absl::StrCat(where, ": section \"", key, "\" is already on line ",
                                                     first->second, "; merge the two"));
    }
    if (!item.second.IsMap() && !item.second.IsNull()) return NoSection(where, key, section);
    if (key == section) {
      found = true;
      MT_ASSIGN_OR_RETURN(settings, ReadKeys(item.second, path));
    } else if (near.empty() && !NearestName(key, {std::string(section)}).empty()) {
      near =
          absl::StrCat(where, ": section \"", key, "\" is not read; did you mean \"", View(section), "\"?");
    }
  }
  if (found) return settings;
  note.misspelt = !near.empty();
  note.text = note.misspelt
                  ? near
                  : absl::StrCat(path, ": section \"", View(section), "\" is missing, and ",
                                 others.empty() ? "no other section either"
                                                : "the others are not read: " + absl::StrJoin(others, ", "));
  return settings;
}

}  // namespace mtrun
