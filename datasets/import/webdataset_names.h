// The naming of files in WebDataset tars: the files of a sample share the path up to the first dot of their
// last name. Pure functions.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace mtrun::datasets {

/// The role of a file in its sample.
enum class SamplePart { kImage, kClass, kJson, kOther };

struct SampleName {
  absl::string_view key;    // "train/a/0001" of "train/a/0001.seg.jpg"
  absl::string_view file;   // "0001.seg.jpg"
  absl::string_view field;  // "seg.jpg"; "" if there is none
  SamplePart part = SamplePart::kOther;
  bool operator==(const SampleName&) const = default;
};

/// Classifies by the last extension, in upper or lower case: images (IsImageExtension), .cls, .json.
SampleName ParseSampleName(absl::string_view path);

/// Chooses among the fields of a sample. If `wanted` is not empty, returns the last field that equals the first
/// of these names that occurs, in upper or lower case. Otherwise returns the last field with `part`; one
/// without a dot ("jpg") precedes those with one ("seg.jpg"). Returns nullopt if there is none.
/// kInvalidArgument: two different fields are equally good.
absl::StatusOr<std::optional<size_t>> ChooseField(const std::vector<absl::string_view>& fields,
                                                  SamplePart part, const std::vector<std::string>& wanted);

/// Returns the class in a .cls file: a number or a name, trimmed. kInvalidArgument: it can be neither.
absl::StatusOr<std::string> ParseClassFile(std::string_view bytes);
/// Returns the class in a .json file: the first of "cls", "label", "class", "class_id", "class_name" that it
/// has, as an integer or a text.
absl::StatusOr<std::string> ParseJsonFile(std::string_view bytes);

/// Returns the split folder that an archive's name contains as a word between "-", "_" and "."
/// ("imagenet-val-000001.tar"); "" if there is none, or more than one.
absl::string_view SplitInName(absl::string_view name);

}  // namespace mtrun::datasets
