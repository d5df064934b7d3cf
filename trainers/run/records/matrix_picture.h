// A confusion matrix as a picture. Pure.
#pragma once

#include "datasets/images/image.h"
#include "trainers/step/confusion_matrix.h"

namespace mtrun::trainers {

/// Draws rows actual, columns predicted, with class numbers on the left and above. Each cell is as dark as
/// its share of its row and shows its count if it fits. At most about 1000 pixels a side: with very many
/// classes a cell is a pixel, and those beyond kMaxPicturedClasses are left out. REQUIRES: classes.
inline constexpr int kMaxPicturedClasses = 1000;
datasets::RgbImage DrawMatrix(const ConfusionMatrix& matrix);

}  // namespace mtrun::trainers
