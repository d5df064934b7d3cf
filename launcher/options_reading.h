// How groups of settings become Options; shared by the options*.cc files only.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "base/settings.h"
#include "launcher/options.h"

namespace mtrun::launcher {

/// The setting as its user gave it: "--nnodes", "PET_NNODES" or "nnodes in the --config file".
std::string Named(const Settings& settings, const std::string& name);
/// "--nnodes: "3:1" is not allowed; it takes N or MIN:MAX".
absl::Status NotAllowed(const Settings& settings, const std::string& name, absl::string_view allowed);

/// Back-end, endpoint, --rdzv_conf, --rdzv_id; after nodes have been read.
absl::Status ReadMeeting(const Settings& settings, Options* options);
/// Files, console, prefixes, filters.
absl::Status ReadOutput(const Settings& settings, const EnvironmentMap& environment, Options* options);

}  // namespace mtrun::launcher
