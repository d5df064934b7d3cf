// Finds the parts of ImageNet (ILSVRC2012) as it is distributed: a tar of 1,000 tars for training, a tar of
// validation images in no folders, their classes in a file of the development kit. image_folder reads them.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "datasets/image_source.h"

namespace mtrun::datasets {

/// True for a folder with ILSVRC2012_img_train.tar, or with class archives (n01440764.tar) in train/.
bool LooksLikeImageNet(const std::string& folder);
/// True once a name is that of a class archive.
bool LooksLikeClassArchives(const std::vector<std::string>& names);

/// `source`: ILSVRC2012_img_train.tar itself, or the folder that holds it, or its class archives in train/.
/// In a folder ILSVRC2012_img_val.tar, the ground truth (ILSVRC2012_validation_ground_truth.txt or
/// LOC_val_solution.csv) and meta.txt are found by their names, there or in ILSVRC2012_devkit_t12/data/,
/// unless the options name others. kInvalidArgument: images of val without their classes.
absl::StatusOr<std::unique_ptr<ImageSource>> OpenImageNet(const std::string& source,
                                                          const SourceOptions& options);

}  // namespace mtrun::datasets
