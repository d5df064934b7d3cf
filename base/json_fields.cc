#include "base/json_fields.h"

#include <limits>

#include "absl/strings/str_cat.h"
#include "base/string_view.h"

namespace mtrun {

using nlohmann::json;

void JsonFields::Read(const char* name, bool& value) {
  const json* const found = Find(name);
  if (found == nullptr) return;
  if (!found->is_boolean()) return Complain(name, "is not true or false");
  value = found->get<bool>();
}

void JsonFields::Read(const char* name, double& value) {
  const json* const found = Find(name);
  if (found == nullptr) return;
  if (!found->is_number()) return Complain(name, "is not a number");
  value = found->get<double>();
}

void JsonFields::ReadOrNull(const char* name, double& value) {
  const json* const found = Find(name);
  if (found != nullptr && found->is_null()) {
    value = std::numeric_limits<double>::quiet_NaN();
  } else if (found != nullptr) {
    Read(name, value);
  }
}

void JsonFields::Read(const char* name, std::string& value) {
  const json* const found = Find(name);
  if (found == nullptr) return;
  if (!found->is_string()) return Complain(name, "is not a string");
  value = found->get<std::string>();
}

void JsonFields::Read(const char* name, std::vector<std::string>& value) {
  const json* const list = FindList(name);
  if (list == nullptr) return;
  std::vector<std::string> texts;
  for (const json& item : *list) {
    if (!item.is_string()) return Complain(name, "is not a list of strings");
    texts.push_back(item.get<std::string>());
  }
  value = std::move(texts);
}

const json* JsonFields::Find(const char* name) {
  if (object_.is_object()) {
    if (const auto found = object_.find(name); found != object_.end()) return &*found;
  }
  Complain(name, "is missing");
  return nullptr;
}

const json* JsonFields::FindList(const char* name) {
  const json* const found = Find(name);
  if (found == nullptr || found->is_array()) return found;
  Complain(name, "is not a list");
  return nullptr;
}

void JsonFields::Complain(const char* name, std::string_view what) {
  Complain(absl::InvalidArgumentError(absl::StrCat(where_, ": field \"", name, "\" ", View(what))));
}

void JsonFields::Complain(absl::Status status) {
  if (status_.ok()) status_ = std::move(status);
}

}  // namespace mtrun
