#include "trainers/run/records/flight_file.h"

#include <unistd.h>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/posix.h"
#include "nlohmann/json.hpp"
#include "trainers/collectives/flight_record.h"

namespace mtrun::trainers {

void WriteFlight(const std::string& model_folder, const FlightHead& head) {
  const nlohmann::ordered_json first = {
      {"flight", 1},         {"rank", head.rank},  {"world", head.world}, {"generation", head.generation},
      {"steps", head.steps}, {"host", HostName()}, {"pid", getpid()},     {"time", WallClockText()},
      {"why", head.why}};
  const std::string text = absl::StrCat(first.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace),
                                        "\n", collectives::FlightRecord::OfProcess().Lines(MonotonicNow()));
  const absl::Status written =
      WriteFileAtomically(absl::StrCat(model_folder, "/flight_", head.rank, ".jsonl"), text);
  if (!written.ok()) log::Warning("no flight record: ", std::string(written.message()));
}

}  // namespace mtrun::trainers
