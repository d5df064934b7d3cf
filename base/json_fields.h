// Fields of a JSON object, one at a time: the first one that is missing or of another kind becomes one
// sentence.
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

/// Not thread-safe. `object` must outlive it; one that is no object lacks every field.
class JsonFields {
 public:
  /// `where` begins the sentence: "hello".
  JsonFields(std::string where, const nlohmann::json& object) : where_(std::move(where)), object_(object) {}

  /// What is wrong leaves the value as it was.
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
  /// Null is what is not finite: JSON has no other word for it.
  void ReadOrNull(const char* name, double& value);

  bool Has(const char* name) const { return object_.is_object() && object_.contains(name); }
  /// The field, or null after a complaint that it is missing (or no list).
  const nlohmann::json* Find(const char* name);
  const nlohmann::json* FindList(const char* name);

  /// `what` completes 'hello: field "pid" '.
  void Complain(const char* name, std::string_view what);
  void Complain(absl::Status status);
  const std::string& where() const { return where_; }
  /// kInvalidArgument: the first complaint.
  const absl::Status& status() const { return status_; }

 private:
  const std::string where_;
  const nlohmann::json& object_;
  absl::Status status_;
};

}  // namespace mtrun
