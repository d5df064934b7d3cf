// The page's state as JSON (docs/formats.md, "The page's API"). Pure.
#pragma once

#include <string>

#include "nlohmann/json.hpp"
#include "page/history.h"
#include "rendezvous/client/watch_client.h"

namespace mtrun::page {

/// Returns the whole state. Names and texts are as nodes sent them; the reader must escape them.
nlohmann::json StateJson(const rendezvous::WatchedState& state, const History& history, TimePoint now);
/// Returns the state while the service does not answer, with the reason `why`.
nlohmann::json SilenceJson(const std::string& why);

}  // namespace mtrun::page
