// What the page shows, as JSON (docs/formats.md, "The page's API"). Pure.
#pragma once

#include <string>

#include "nlohmann/json.hpp"
#include "page/history.h"
#include "rendezvous/watch_client.h"

namespace mtrun::page {

/// All of it. Names and texts are as nodes gave them: who shows them escapes them.
nlohmann::json StateJson(const rendezvous::WatchedState& state, const History& history, TimePoint now);
/// The service does not answer: `why`.
nlohmann::json SilenceJson(const std::string& why);

/// On one line; bytes that are not UTF-8 are replaced.
std::string Line(const nlohmann::json& json);

}  // namespace mtrun::page
