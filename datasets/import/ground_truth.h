// Assigns classes to images that are not in class folders, from a text file such as that of ImageNet's
// validation images. Pure functions.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "datasets/packed/class_list.h"

namespace mtrun::datasets {

/// Returns the class of each of `files` (names without folders, sorted by bytes). A line of `text` is one of
///   <class>               the class of the next file, in the order of their names
///   <file> <class>        with or without the file's extension; lines of other files are ignored
///   <file>,<class> ...    the same, after a head that begins with "ImageId," (Kaggle's LOC_val_solution.csv)
/// A class is a name or a number. A number is looked up in the class list; if the list has none, it is a line
/// of the list, counted from 0 or 1 as the range of the numbers shows. kInvalidArgument names what does not
/// fit. It also refuses a list sorted by name for numbers from 1 without files: those are ILSVRC2012_IDs.
absl::StatusOr<std::vector<std::string>> FindClasses(std::string_view text,
                                                     const std::optional<ClassList>& classes,
                                                     absl::Span<const absl::string_view> files);

}  // namespace mtrun::datasets
