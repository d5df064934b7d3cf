// One executable contains all training programs. It is started through links, whose names select the program.
// If links are impossible (in a Python wheel), the first argument selects it: trainer cnnA --data ...
#pragma once

#include <string_view>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace mtrun::trainers {

struct Program;

struct Trainer {
  std::string_view name;  // name of the link
  Program (*describe)();
};

/// Returns the trainer whose name is the last part of `command`, such as argv[0]. kNotFound lists the names.
absl::StatusOr<Trainer> FindTrainer(absl::Span<const Trainer> trainers, std::string_view command);

/// Runs the program that argv[0] names, else argv[1]. Returns its exit status, 2 for an unknown program.
int RunTrainer(int argc, char** argv, absl::Span<const Trainer> trainers);

}  // namespace mtrun::trainers
