// The classes of images that lie in no class folders, from a text file, as ImageNet's validation images have
// them. Pure functions.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "datasets/class_list.h"

namespace mtrun::datasets {

/// The class of each of `files` (names without folders, sorted by bytes). A line of `text` is one of
///   <class>               the class of the next file, in the order of their names
///   <file> <class>        with or without the file's extension; lines of other files are passed over
///   <file>,<class> ...    the same, below a head that begins with "ImageId," (Kaggle's LOC_val_solution.csv)
/// A class is a name, or a number: that which the class list gives it or, where the list gives none, the
/// place of its line, counted from 0 or from 1 as the range of the numbers tells. kInvalidArgument says which
/// line or file does not fit; so does a list in the order of names for numbers without files that count from
/// 1, for those are ILSVRC2012_IDs, which have another order.
absl::StatusOr<std::vector<std::string>> FindClasses(std::string_view text,
                                                     const std::optional<ClassList>& classes,
                                                     absl::Span<const absl::string_view> files);

}  // namespace mtrun::datasets
