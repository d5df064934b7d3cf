// How WebDataset tars name their files: those of one sample share what stands before the first dot of their
// last name. Pure functions.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace mtrun::datasets {

/// What a file holds of its sample.
enum class SamplePart { kImage, kClass, kJson, kOther };

struct SampleName {
  absl::string_view key;   // "train/a/0001" of "train/a/0001.jpg"
  absl::string_view file;  // "0001.jpg"
  SamplePart part = SamplePart::kOther;
  bool operator==(const SampleName&) const = default;
};

/// By the extension, large or small: .jpg .jpeg .png .webp .bmp .tif .tiff; .cls; .json.
SampleName ParseSampleName(absl::string_view path);

/// The class that a .cls file names: a number or a name, without white space around it. kInvalidArgument: it
/// can be neither.
absl::StatusOr<std::string> ParseClassFile(std::string_view bytes);
/// The class in a .json file: the first of "cls", "label", "class", "class_id", "class_name" that it has, a
/// whole number or a text.
absl::StatusOr<std::string> ParseJsonFile(std::string_view bytes);

/// Which split the name of an archive tells: of its words between "-", "_" and ".", one that is the name of a
/// split folder ("imagenet-val-000001.tar"); "" where none is or several are.
absl::string_view SplitInName(absl::string_view name);

}  // namespace mtrun::datasets
