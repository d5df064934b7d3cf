#include "datasets/packed/shard_state.h"

#include "base/json_text.h"
#include "base/status_macros.h"

namespace mtrun::datasets {

using nlohmann::json;

std::string EncodeShardState(const ShardState& state) {
  json bad = json::array();
  for (const auto& [image, why] : state.bad) bad.push_back({image, why});
  // A path or a reason may not be UTF-8.
  return json{
      {"images", state.entry.images},
      {"bytes", state.entry.bytes},
      {"sha256", state.entry.sha256},
      {"sides", {state.smallest.height, state.smallest.width, state.largest.height, state.largest.width}},
      {"oriented", state.oriented},
      {"bad", bad}}
      .dump(-1, ' ', false, json::error_handler_t::replace);
}

absl::StatusOr<ShardState> DecodeShardState(std::string_view text) {
  MT_ASSIGN_OR_RETURN(const json object, ParseJsonObject(text, size_t{1} << 28));
  try {
    ShardState state;
    state.entry = {object.at("images").get<int64_t>(), object.at("bytes").get<int64_t>(),
                   object.at("sha256").get<std::string>()};
    const json& sides = object.at("sides");
    state.smallest = {sides.at(0).get<int>(), sides.at(1).get<int>()};
    state.largest = {sides.at(2).get<int>(), sides.at(3).get<int>()};
    state.oriented = object.at("oriented").get<int64_t>();
    for (const json& one : object.at("bad"))
      state.bad.emplace_back(one.at(0).get<int64_t>(), one.at(1).get<std::string>());
    return state;
  } catch (const json::exception& error) {
    return absl::DataLossError(absl::StrCat("not the state of a shard: ", error.what()));
  }
}

}  // namespace mtrun::datasets
