// Predictions as a page for a browser: one self-contained file. Pure functions.
#pragma once

#include <string>

#include "trainers/program/prediction.h"

namespace mtrun::trainers {

std::string PredictionPageHead();
/// Returns the picture, the classes with their probabilities, and the file's name.
std::string PredictionPageEntry(const Prediction& prediction);
std::string PredictionPageTail();

}  // namespace mtrun::trainers
