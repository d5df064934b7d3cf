// A confusion matrix as a picture. Pure.
#pragma once

#include "datasets/images/image.h"
#include "trainers/step/confusion_matrix.h"

namespace mtrun::trainers {

/// Rows actual, columns predicted, each cell as dark as its share of its row, with its count where there is
/// room; class numbers on the left and above. At most about 1000 pixels a side: of very many classes each
/// cell is a pixel, and those beyond kMostPicturedClasses are left out. REQUIRES: there are classes.
inline constexpr int kMostPicturedClasses = 1000;
datasets::RgbImage DrawMatrix(const ConfusionMatrix& matrix);

}  // namespace mtrun::trainers
