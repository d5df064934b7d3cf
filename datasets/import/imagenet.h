// Finds the parts of ImageNet (ILSVRC2012) as distributed: a tar of 1,000 tars for training, a tar of
// validation images without folders, and their classes in a file of the devkit. image_folder reads them.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "datasets/import/image_source.h"

namespace mtrun::datasets {

/// Returns true for a folder with ILSVRC2012_img_train.tar, or with class archives (n01440764.tar) in train/.
bool LooksLikeImageNet(const std::string& folder);
/// Returns true if the last name is that of a class archive.
bool LooksLikeClassArchives(const std::vector<std::string>& names);

/// Opens ILSVRC2012_img_train.tar, or a folder with it or with class archives in train/. In a folder, finds
/// ILSVRC2012_img_val.tar, the ground truth (ILSVRC2012_validation_ground_truth.txt or LOC_val_solution.csv)
/// and meta.txt by their names, there or in ILSVRC2012_devkit_t12/data/, unless the options name others.
/// kInvalidArgument: images of val without classes.
absl::StatusOr<std::unique_ptr<ImageSource>> OpenImageNet(const ImportOptions& options);

}  // namespace mtrun::datasets
