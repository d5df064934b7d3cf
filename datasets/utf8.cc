#include "datasets/utf8.h"

#include "nlohmann/json.hpp"

namespace mtrun::datasets {

bool IsUtf8(std::string_view text) {
  try {
    return !nlohmann::json(text).dump().empty();
  } catch (const nlohmann::json::exception&) {
    return false;
  }
}

}  // namespace mtrun::datasets
