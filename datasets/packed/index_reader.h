// Reads the JSON text of an index without keeping all of it: shards, of which there can be a million, are
// handed on one by one, and the number of all other values is bounded. Pure.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "base/json_text.h"

namespace mtrun::datasets {

class IndexReader : public JsonEvents {
 public:
  /// Receives each object in `splits.<split>.shards`, and nullptr when the list begins.
  using OnShard = std::function<void(const std::string& split, const nlohmann::json* shard)>;

  /// Returns the value of `text`, whose lists of shards contain only what is not an object. Errors as for
  /// ParseJson, also if there are more than `most_values` values besides the shards.
  static absl::StatusOr<nlohmann::json> Read(std::string_view text, size_t most_bytes, size_t most_values,
                                             OnShard on_shard);

  bool null() override { return Add(nullptr) != nullptr; }
  bool boolean(bool value) override { return Add(value) != nullptr; }
  bool number_integer(int64_t value) override { return Add(value) != nullptr; }
  bool number_unsigned(uint64_t value) override { return Add(value) != nullptr; }
  bool number_float(double value, const std::string&) override { return Add(value) != nullptr; }
  bool string(std::string& value) override { return Add(std::move(value)) != nullptr; }
  bool start_object(size_t) override { return Open(nlohmann::json::object()); }
  bool start_array(size_t) override;
  bool key(std::string& name) override;
  bool end_object() override;
  bool end_array() override;

 private:
  struct Level {
    nlohmann::json* value;
    std::string key = "";  // the latest, of an object
    size_t before = 0;     // number of values when it began
  };
  IndexReader(size_t most_values, OnShard on_shard)
      : most_values_(most_values), on_shard_(std::move(on_shard)) {}
  /// Returns where the value is, or nullptr if there are too many.
  nlohmann::json* Add(nlohmann::json value);
  bool Open(nlohmann::json value);
  /// Returns whether the innermost level is the list of a split's shards.
  bool InShards() const;

  const size_t most_values_;
  const OnShard on_shard_;
  size_t values_ = 0;
  nlohmann::json root_;
  std::vector<Level> levels_;  // those that are open, outermost first
};

}  // namespace mtrun::datasets
