#include "trainers/program/trainers.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace mtrun::trainers {

absl::StatusOr<Trainer> FindTrainer(absl::Span<const Trainer> trainers, std::string_view command) {
  const std::string_view name = command.substr(command.rfind('/') + 1);
  for (const Trainer& trainer : trainers) {
    if (trainer.name == name) return trainer;
  }
  const auto add_name = [](std::string* text, const Trainer& trainer) {
    absl::StrAppend(text, std::string(trainer.name));
  };
  return absl::NotFoundError(absl::StrCat(
      "unknown trainer \"", std::string(name),
      "\": start this program through a link that is named after a trainer, or give one as first argument: ",
      absl::StrJoin(trainers, ", ", add_name)));
}

}  // namespace mtrun::trainers
