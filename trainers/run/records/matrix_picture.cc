#include "trainers/run/records/matrix_picture.h"

#include <algorithm>
#include <array>
#include <string>

#include "absl/strings/str_cat.h"

namespace mtrun::trainers {
namespace {

using datasets::RgbImage;

struct Colour {
  double red, green, blue;
};
constexpr Colour kLow = {247, 250, 252}, kHigh = {8, 64, 129}, kInk = {30, 41, 59}, kPaper = {255, 255, 255};

constexpr int kDigitRows = 5, kDigitColumns = 3;
/// Three bits per row of pixels, the left one first.
constexpr std::array<std::array<uint8_t, kDigitRows>, 10> kDigits = {{{7, 5, 5, 5, 7},
                                                                      {2, 6, 2, 2, 7},
                                                                      {7, 1, 7, 4, 7},
                                                                      {7, 1, 7, 1, 7},
                                                                      {5, 5, 7, 1, 1},
                                                                      {7, 4, 7, 1, 7},
                                                                      {7, 4, 7, 5, 7},
                                                                      {7, 1, 1, 1, 1},
                                                                      {7, 5, 7, 5, 7},
                                                                      {7, 5, 7, 1, 7}}};

struct Box {
  int left, top, side;
};

void Fill(RgbImage& image, int left, int top, int width, int height, const Colour& colour) {
  for (int y = top; y < top + height; ++y) {
    for (int x = left; x < left + width; ++x) {
      uint8_t* const pixel = &image.pixels[3 * (static_cast<size_t>(y) * image.size.width + x)];
      pixel[0] = static_cast<uint8_t>(colour.red);
      pixel[1] = static_cast<uint8_t>(colour.green);
      pixel[2] = static_cast<uint8_t>(colour.blue);
    }
  }
}

/// Writes the number in the middle of the box; nothing if it does not fit.
void Write(RgbImage& image, const Box& box, int64_t number, const Colour& colour) {
  constexpr int kScale = 2;
  const std::string digits = absl::StrCat(number);
  const int width = kScale * ((kDigitColumns + 1) * static_cast<int>(digits.size()) - 1);
  const int height = kScale * kDigitRows;
  if (width > box.side || height > box.side) return;
  int left = box.left + (box.side - width) / 2;
  const int top = box.top + (box.side - height) / 2;
  for (const char digit : digits) {
    const auto& rows = kDigits[digit - '0'];
    for (int row = 0; row < kDigitRows; ++row) {
      for (int column = 0; column < kDigitColumns; ++column) {
        if ((rows[row] >> (kDigitColumns - 1 - column) & 1) == 0) continue;
        Fill(image, left + kScale * column, top + kScale * row, kScale, kScale, colour);
      }
    }
    left += kScale * (kDigitColumns + 1);
  }
}

Colour Blend(double share) {
  const auto mix = [share](double low, double high) { return low + share * (high - low); };
  return {mix(kLow.red, kHigh.red), mix(kLow.green, kHigh.green), mix(kLow.blue, kHigh.blue)};
}

}  // namespace

datasets::RgbImage DrawMatrix(const ConfusionMatrix& matrix) {
  constexpr int kMaxSide = 1000, kMaxCell = 48;
  const int classes = std::min(matrix.classes(), kMaxPicturedClasses);
  const int cell = std::clamp(kMaxSide / (classes + 1), 1, kMaxCell), gap = cell > 8 ? 1 : 0;
  const int side = cell * (classes + 1);
  RgbImage image = datasets::MakeImage({side, side});
  Fill(image, 0, 0, side, side, kPaper);
  for (int actual = 0; actual < classes; ++actual) {
    Write(image, {0, cell * (actual + 1), cell}, actual, kInk);
    Write(image, {cell * (actual + 1), 0, cell}, actual, kInk);
    int64_t row = 0;
    for (int predicted = 0; predicted < matrix.classes(); ++predicted) row += matrix.at(actual, predicted);
    for (int predicted = 0; predicted < classes; ++predicted) {
      const int64_t count = matrix.at(actual, predicted);
      const double share = row == 0 ? 0 : static_cast<double>(count) / static_cast<double>(row);
      const Box box{cell * (predicted + 1), cell * (actual + 1), cell};
      Fill(image, box.left, box.top, cell - gap, cell - gap, Blend(share));
      if (count > 0) Write(image, box, count, share > 0.5 ? kPaper : kInk);
    }
  }
  return image;
}

}  // namespace mtrun::trainers
