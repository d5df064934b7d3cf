#include <string>

#include "base/error_file.h"
#include "launcher/output/own_error_file.h"
#include "tests/fuzz/fuzz_targets.h"
#include "tests/fuzz/input.h"
#include "tests/fuzz/invariant.h"

namespace mtrun::fuzz {

void FuzzErrorFile(std::string_view bytes) {
  const InputFile file(bytes);
  const absl::StatusOr<ErrorRecord> record = ReadErrorFile(file.path());
  MT_HOLDS(record.ok() || !record.status().message().empty());
  if (record.ok()) {
    const auto again = ParseErrorFile(ErrorFileText(record->message, 0));
    MT_HOLDS(again.ok() && again->message == record->message) << record->message;
  }
  // mtrun's own file always tells how the job ended.
  rendezvous::JobOutcome outcome;
  outcome.exit_code = 3;
  outcome.root_cause.emplace();
  outcome.root_cause->message = std::string(bytes);
  MT_HOLDS(ParseErrorFile(launcher::OwnErrorFile(bytes, outcome)).ok());
}

}  // namespace mtrun::fuzz
