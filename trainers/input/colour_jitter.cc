#include "trainers/input/colour_jitter.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/status_macros.h"

namespace mtrun::trainers {
namespace {

enum Change { kBrightness, kContrast, kSaturation, kHue, kChanges };

/// Returns the `index`-th permutation in lexicographic order.
std::array<int, kChanges> OrderOf(int index) {
  std::array<int, kChanges> order = {kBrightness, kContrast, kSaturation, kHue};
  for (int i = 0; i < index; ++i) std::next_permutation(order.begin(), order.end());
  return order;
}

/// Returns luma (ITU-R 601) in Pillow's integer arithmetic.
int Grey(const uint8_t* rgb) { return (rgb[0] * 19595 + rgb[1] * 38470 + rgb[2] * 7471 + 0x8000) >> 16; }

/// Returns other + factor (byte - other), truncated towards zero.
uint8_t Blend(int other, int byte, float factor) {
  const float value = static_cast<float>(other) + factor * static_cast<float>(byte - other);
  return static_cast<uint8_t>(std::clamp(value, 0.0f, 255.0f));
}

void Brighten(float factor, absl::Span<uint8_t> rgb) {
  for (uint8_t& byte : rgb) byte = Blend(0, byte, factor);
}

void Contrast(float factor, absl::Span<uint8_t> rgb) {
  int64_t sum = 0;
  for (size_t i = 0; i < rgb.size(); i += 3) sum += Grey(&rgb[i]);
  const double mean = static_cast<double>(sum) / (static_cast<double>(rgb.size()) / 3);
  const int grey = static_cast<int>(mean + 0.5);
  for (uint8_t& byte : rgb) byte = Blend(grey, byte, factor);
}

void Saturate(float factor, absl::Span<uint8_t> rgb) {
  for (size_t i = 0; i < rgb.size(); i += 3) {
    const int grey = Grey(&rgb[i]);
    for (int c = 0; c < 3; ++c) rgb[i + c] = Blend(grey, rgb[i + c], factor);
  }
}

/// Turns the hue by `turns` in HSV (Smith, "Color Gamut Transform Pairs", SIGGRAPH 1978).
void TurnHue(float turns, absl::Span<uint8_t> rgb) {
  for (size_t i = 0; i < rgb.size(); i += 3) {
    const float r = rgb[i], g = rgb[i + 1], b = rgb[i + 2];
    const float high = std::max({r, g, b}), range = high - std::min({r, g, b});
    if (range == 0) continue;
    float sector = high == r ? (g - b) / range : high == g ? 2 + (b - r) / range : 4 + (r - g) / range;
    sector += 6 * turns;
    const auto channel = [&](float offset) {
      float k = std::fmod(sector + offset + 12, 6.0f);  // turns are at most half a circle either way
      k = std::clamp(std::min(k, 4 - k), 0.0f, 1.0f);
      return static_cast<uint8_t>(high - range * k + 0.5f);
    };
    rgb[i] = channel(5);
    rgb[i + 1] = channel(3);
    rgb[i + 2] = channel(1);
  }
}

}  // namespace

void JitterColours(const ColourJitter& jitter, absl::Span<const double> uniform, absl::Span<uint8_t> rgb) {
  MT_CHECK(uniform.size() == kJitterDraws && rgb.size() % 3 == 0 && !rgb.empty()) << uniform.size();
  const double low = std::max(0.0, 1 - jitter.colours), high = 1 + jitter.colours;
  for (const int change : OrderOf(static_cast<int>(uniform[0] * 24))) {
    const double u = uniform[1 + change];
    if (change == kHue) {
      if (jitter.hue > 0) TurnHue(static_cast<float>(jitter.hue * (2 * u - 1)), rgb);
      continue;
    }
    if (jitter.colours <= 0) continue;
    const auto factor = static_cast<float>(low + (high - low) * u);
    if (change == kBrightness) Brighten(factor, rgb);
    if (change == kContrast) Contrast(factor, rgb);
    if (change == kSaturation) Saturate(factor, rgb);
  }
}

}  // namespace mtrun::trainers
