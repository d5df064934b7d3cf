// Huffman codes of sequential JPEG files (ISO 10918-1, annex F), read many bits at a time. Internal to this
// folder. Not thread-safe.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <cstring>
#include <vector>

namespace mtrun::datasets {

/// The bits of a scan, most significant first. REQUIRES: at least kPadding readable bytes follow the data.
class BitReader {
 public:
  static constexpr int kPadding = 4096;  // more than the coefficients of one unit of ten blocks can take

  BitReader(const uint8_t* begin, const uint8_t* end) : at_(begin), end_(end) {}

  /// Makes at least 56 bits available.
  void Fill() {
    uint64_t next;
    std::memcpy(&next, at_, sizeof(next));
    if constexpr (std::endian::native == std::endian::little) next = __builtin_bswap64(next);
    bits_ |= next >> count_;
    at_ += (63 - count_) >> 3;
    count_ |= 56;
  }
  int available() const { return count_; }
  /// Returns the next `count` bits. REQUIRES: 1 <= count <= available().
  uint32_t Peek(int count) const { return static_cast<uint32_t>(bits_ >> (64 - count)); }
  void Drop(int count) {
    bits_ <<= count;
    count_ -= count;
  }
  /// Returns whether more bits were dropped than there are.
  bool overrun() const { return 8 * (at_ - end_) > count_; }

 private:
  uint64_t bits_ = 0;
  int count_ = 0;
  const uint8_t* at_;
  const uint8_t* end_;
};

/// One table of codes, with values decoded in advance where code and value fit into kFastBits bits.
class HuffmanTable {
 public:
  static constexpr int kFastBits = 10;
  static constexpr int kEnd = 128;  // the advance of an end of block: beyond all coefficients

  /// A code and its value, in one register.
  class Step {
   public:
    Step() = default;
    Step(int length, int advance, int value)
        : bits_(static_cast<uint32_t>(length) | static_cast<uint32_t>(advance) << 8 |
                static_cast<uint32_t>(value) << 16) {}
    /// Returns the bits of code and value. 0: they do not fit, and `advance` is the length of the code, if it
    /// fits, and `value` its symbol.
    int length() const { return static_cast<uint8_t>(bits_); }
    /// Returns the number of coefficients that the step fills: its zeros and its value.
    int advance() const { return static_cast<uint8_t>(bits_ >> 8); }
    int16_t value() const { return static_cast<int16_t>(bits_ >> 16); }

   private:
    uint32_t bits_ = 0;
  };

  /// Several steps that fit into kFastBits bits, for blocks that are not wanted.
  struct alignas(4) Skip {
    uint8_t length = 0;   // bits, 0 if no step fits
    uint8_t advance = 0;  // coefficients before the end of the block
    bool ends = false;    // the last step is an end of block
  };

  /// Returns false if the counts do not describe a code. `counts[l]`: codes of l bits, l = 1..16; `symbols`:
  /// 256. A table of differences (DC) has sizes as symbols, one of coefficients (AC) runs and sizes. Quick if
  /// the table is this one already: most files have the same.
  bool Build(const uint8_t* counts, const uint8_t* symbols, bool differences);

  /// Takes the next step from `bits`. Returns false if they are no code. REQUIRES: 32 bits are available.
  [[gnu::always_inline]] bool Take(BitReader& bits, Step& step) const {
    step = fast_[bits.Peek(kFastBits)];
    if (step.length() == 0) [[unlikely]] {
      step = FindSlow(step, bits.Peek(32));
      if (step.length() == 0) return false;
    }
    bits.Drop(step.length());
    return true;
  }

  /// Returns the next steps. They are all of this block only if they do not fill it.
  Skip FindSkip(const BitReader& bits) const { return skips_[bits.Peek(kFastBits)]; }

 private:
  bool BuildSteps();
  void BuildSkips();
  Step FindSlow(Step start, uint32_t next) const;

  std::array<Step, 1 << kFastBits> fast_ = {};
  std::array<Skip, 1 << kFastBits> skips_ = {};
  std::array<uint32_t, 17> limit_ = {};     // codes of l bits are below, as 16 bits
  std::array<int32_t, 17> symbol_at_ = {};  // to be added to a code of l bits
  std::array<uint8_t, 17> counts_ = {};
  std::array<uint8_t, 256> symbols_ = {};
  bool differences_ = false, is_code_ = false;
};

/// Returns the data of a scan without stuffed zeros, and padded for BitReader. The scan ends before the first
/// marker that is not a restart.
struct ScanData {
  std::vector<uint8_t> bytes;
  std::vector<int64_t> ends;  // the end of each part between restarts
  uint8_t marker = 0;         // the marker at the end, 0 if there is none
  bool ordered = true;        // restarts are numbered as they should be
};
ScanData ReadScan(const uint8_t* begin, const uint8_t* end);

}  // namespace mtrun::datasets
