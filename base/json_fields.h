// Reads the fields of a JSON object one by one; the first missing or mistyped field becomes a one-sentence
// error.
#pragma once

#include <concepts>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "base/json_text.h"
#include "nlohmann/json.hpp"

namespace mtrun {

/// Not thread-safe. `object` must outlive the reader; if it is not a JSON object, every field is missing.
class JsonFields {
 public:
  /// Starts every complaint with `where`, for example "hello".
  JsonFields(std::string where, const nlohmann::json& object) : where_(std::move(where)), object_(object) {}

  /// Reads a field; `value` keeps its old value on error.
  void Read(const char* name, bool& value);
  void Read(const char* name, double& value);
  void Read(const char* name, std::string& value);
  void Read(const char* name, std::vector<std::string>& value);
  template <std::integral Int>
  void Read(const char* name, Int& value) {
    const nlohmann::json* const found = Find(name);
    if (found == nullptr) return;
    const std::optional<Int> number = WholeNumber<Int>(*found);
    if (!number)
      return Complain(name, found->is_number_integer() ? "is out of range" : "is not a whole number");
    value = *number;
  }
  /// Reads a number or null; null means a non-finite value, which JSON cannot express.
  void ReadOrNull(const char* name, double& value);

  bool Has(const char* name) const { return object_.is_object() && object_.contains(name); }
  /// Returns the field, or null after a complaint that it is missing (or not a list).
  const nlohmann::json* Find(const char* name);
  const nlohmann::json* FindList(const char* name);

  /// Records a complaint, 'hello: field "pid" <what>'.
  void Complain(const char* name, std::string_view what);
  void Complain(absl::Status status);
  const std::string& where() const { return where_; }
  /// Returns the first complaint as kInvalidArgument.
  const absl::Status& status() const { return status_; }

 private:
  const std::string where_;
  const nlohmann::json& object_;
  absl::Status status_;
};

}  // namespace mtrun
