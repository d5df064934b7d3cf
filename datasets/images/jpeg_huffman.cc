#include "datasets/images/jpeg_huffman.h"

#include <algorithm>

#include "datasets/images/jpeg_markers.h"

namespace mtrun::datasets {
namespace {

/// Returns the value of `size` bits: those that begin with 0 are negative (F.2.2.1).
int Extended(uint32_t bits, int size) {
  const auto value = static_cast<int>(bits);
  return value < (1 << (size - 1)) ? value - (1 << size) + 1 : value;
}

/// The meaning of a symbol: the size of its value in bits, and the coefficients that it fills.
struct Meaning {
  int size = 0, advance = 0;
};
Meaning MeaningOf(uint8_t symbol, bool differences) {
  if (differences) return {symbol, 1};
  const int size = symbol & 15, run = symbol >> 4;
  return {size, size == 0 && run != 15 ? HuffmanTable::kEnd : run + 1};
}

}  // namespace

bool HuffmanTable::Build(const uint8_t* counts, const uint8_t* symbols, bool differences) {
  if (is_code_ && differences == differences_ && std::equal(counts_.begin(), counts_.end(), counts) &&
      std::equal(symbols_.begin(), symbols_.end(), symbols))
    return true;
  std::copy_n(counts, counts_.size(), counts_.begin());
  std::copy_n(symbols, symbols_.size(), symbols_.begin());
  differences_ = differences;
  is_code_ = BuildSteps();
  if (is_code_ && !differences) BuildSkips();
  return is_code_;
}

bool HuffmanTable::BuildSteps() {
  fast_.fill({});
  uint32_t code = 0;
  int at = 0;
  for (int length = 1; length <= 16; ++length, code <<= 1) {
    symbol_at_[length] = at - static_cast<int>(code);
    if (at + counts_[length] > 256) return false;
    for (int i = 0; i < counts_[length]; ++i, ++at, ++code) {
      if (code >= (uint32_t{1} << length)) return false;
      if (differences_ && symbols_[at] > 15) return false;
      const Meaning meaning = MeaningOf(symbols_[at], differences_);
      const int size = meaning.size, free = kFastBits - length - size;
      if (length > kFastBits) continue;
      Step* step = fast_.data() + (static_cast<size_t>(code) << (kFastBits - length));
      if (free < 0) {
        std::fill_n(step, size_t{1} << (kFastBits - length), Step(0, length, symbols_[at]));
        continue;
      }
      for (uint32_t value = 0; value < (uint32_t{1} << size); ++value, step += size_t{1} << free) {
        const Step one(length + size, meaning.advance, size == 0 ? 0 : Extended(value, size));
        std::fill_n(step, size_t{1} << free, one);
      }
    }
    limit_[length] = code << (16 - length);
  }
  return true;
}

void HuffmanTable::BuildSkips() {
  for (size_t bits = 0; bits < skips_.size(); ++bits) {
    Skip skip;
    while (!skip.ends) {
      const Step& step = fast_[(bits << skip.length) & (fast_.size() - 1)];
      if (step.length() == 0 || skip.length + step.length() > kFastBits) break;
      skip.length = static_cast<uint8_t>(skip.length + step.length());
      skip.ends = step.advance() == kEnd;
      if (!skip.ends) skip.advance = static_cast<uint8_t>(skip.advance + step.advance());
    }
    skips_[bits] = skip;
  }
}

HuffmanTable::Step HuffmanTable::FindSlow(Step start, uint32_t next) const {
  int length = start.advance(), symbol = start.value();
  if (length == 0) {
    length = kFastBits + 1;
    while (length <= 16 && next >> 16 >= limit_[length]) ++length;
    if (length > 16) return {};
    const int at = static_cast<int>(next >> (32 - length)) + symbol_at_[length];
    symbol = symbols_[static_cast<size_t>(at) & 255];
  }
  const Meaning meaning = MeaningOf(static_cast<uint8_t>(symbol), differences_);
  const int size = meaning.size;
  const int value = size == 0 ? 0 : Extended((next << length) >> (32 - size), size);
  return {length + size, meaning.advance, value};
}

ScanData ReadScan(const uint8_t* begin, const uint8_t* end) {
  ScanData scan;
  scan.bytes.resize(static_cast<size_t>(end - begin) + BitReader::kPadding);
  uint8_t* out = scan.bytes.data();
  for (const uint8_t* at = begin; at < end;) {
    const auto* marker = static_cast<const uint8_t*>(std::memchr(at, 0xFF, static_cast<size_t>(end - at)));
    if (marker == nullptr) break;
    out = std::copy(at, marker, out);
    do ++marker;
    while (marker < end && *marker == 0xFF);
    if (marker == end) break;
    at = marker + 1;
    if (*marker == 0) {
      *out++ = 0xFF;
    } else if (IsRestart(*marker)) {
      scan.ordered = scan.ordered && (*marker & 7) == (scan.ends.size() & 7);
      scan.ends.push_back(out - scan.bytes.data());
    } else {
      scan.marker = *marker;
      break;
    }
  }
  scan.ends.push_back(out - scan.bytes.data());
  std::fill_n(out, BitReader::kPadding, 0);
  return scan;
}

}  // namespace mtrun::datasets
