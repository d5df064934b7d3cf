#include "datasets/packed/index_reader.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace mtrun::datasets {

using nlohmann::json;

absl::StatusOr<json> IndexReader::Read(std::string_view text, size_t most_bytes, size_t most_values,
                                       OnShard on_shard) {
  IndexReader reader(most_values, std::move(on_shard));
  const absl::Status parsed = ParseJsonEvents(text, most_bytes, reader);
  if (absl::IsAborted(parsed)) {
    return absl::InvalidArgumentError(
        absl::StrCat("more than ", most_values, " values besides the shards, the limit"));
  }
  MT_RETURN_IF_ERROR(parsed);
  return std::move(reader.root_);
}

bool IndexReader::start_array(size_t) {
  if (!Open(json::array())) return false;
  if (InShards()) on_shard_(levels_[1].key, nullptr);
  return true;
}

bool IndexReader::key(std::string& name) {
  levels_.back().key = name;
  return true;
}

bool IndexReader::end_object() {
  const Level ended = std::move(levels_.back());
  levels_.pop_back();
  if (!InShards()) return true;
  on_shard_(levels_[1].key, ended.value);
  levels_.back().value->get_ref<json::array_t&>().pop_back();
  values_ = ended.before;
  return true;
}

bool IndexReader::end_array() {
  levels_.pop_back();
  return true;
}

json* IndexReader::Add(json value) {
  if (++values_ > most_values_) return nullptr;
  if (levels_.empty()) return &(root_ = std::move(value));
  Level& level = levels_.back();
  if (!level.value->is_array()) return &((*level.value)[level.key] = std::move(value));
  return &level.value->get_ref<json::array_t&>().emplace_back(std::move(value));
}

bool IndexReader::Open(json value) {
  const size_t before = values_;
  json* const added = Add(std::move(value));
  if (added != nullptr) levels_.push_back({.value = added, .before = before});
  return added != nullptr;
}

bool IndexReader::InShards() const {
  return levels_.size() == 3 + 1 && levels_[3].value->is_array() && levels_[0].value->is_object() &&
         levels_[1].value->is_object() && levels_[2].value->is_object() && levels_[0].key == "splits" &&
         levels_[2].key == "shards";
}

}  // namespace mtrun::datasets
