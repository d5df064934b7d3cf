#include "datasets/images/jpeg_planes.h"

#include <algorithm>

#include "datasets/images/jpeg_huffman.h"
#include "datasets/images/jpeg_markers.h"
#include "datasets/images/jpeg_transform.h"
#include "datasets/images/plane_blend.h"

namespace mtrun::datasets {
namespace {

constexpr int kCoefficients = 64;

/// Returns the place in a block of each coefficient in the order of the file. A coefficient after the last one
/// gets a place behind the block.
constexpr std::array<uint8_t, kCoefficients + HuffmanTable::kEnd> Places() {
  std::array<uint8_t, kCoefficients + HuffmanTable::kEnd> places = {};
  places.fill(kCoefficients);
  int x = 0, y = 0;
  for (int k = 0; k < kCoefficients; ++k) {
    places[k] = static_cast<uint8_t>(8 * y + x);
    const bool up = (x + y) % 2 == 0;
    if (up ? x == 7 : y != 7 && x == 0) {
      ++y;
    } else if (up ? y == 0 : y == 7) {
      ++x;
    } else {
      x += up ? 1 : -1;
      y -= up ? 1 : -1;
    }
  }
  return places;
}
constexpr std::array<uint8_t, kCoefficients + HuffmanTable::kEnd> kPlaces = Places();

/// One component while the scan is read.
struct Component {
  int across = 1, down = 1;  // blocks per unit
  const HuffmanTable* first = nullptr;
  const HuffmanTable* others = nullptr;
  std::array<uint16_t, kCoefficients> quantizers = {};
  int eighths = 8;
  SampleRange columns, rows;  // wanted blocks
  uint8_t* samples = nullptr;
  ptrdiff_t stride = 0;
  uint32_t level = 0;  // the first coefficient of the block before; those of damaged files overflow

  uint8_t* block_at(int x, int y) const {
    return samples + (x - columns.begin) * eighths * stride + (y - rows.begin) * eighths;
  }
};

/// Reads the coefficients after the first. Returns the number after the last, beyond kCoefficients if the
/// block ended early; 0 if the bits are damaged.
[[gnu::always_inline]] inline int ReadOthers(BitReader& bits, const HuffmanTable& table, int16_t* block) {
  int at = 1;
  while (at < kCoefficients) {
    if (bits.available() < 32) bits.Fill();
    HuffmanTable::Step step;
    if (!table.Take(bits, step)) return 0;
    at += step.advance();
    block[kPlaces[at - 1]] = step.value();
  }
  return at == kCoefficients || at > HuffmanTable::kEnd ? at : 0;
}

/// Reads beyond them. Returns false if the bits are damaged.
[[gnu::always_inline]] inline bool SkipOthers(BitReader& bits, const HuffmanTable& table) {
  int at = 1;
  while (at < kCoefficients) {
    if (bits.available() < 32) bits.Fill();
    const HuffmanTable::Skip skip = table.FindSkip(bits);
    if (skip.length > 0 && at + skip.advance < kCoefficients) {
      bits.Drop(skip.length);
      at += skip.advance;
      if (skip.ends) return true;
      continue;
    }
    HuffmanTable::Step step;
    if (!table.Take(bits, step)) return false;
    at += step.advance();
  }
  return at == kCoefficients || at > HuffmanTable::kEnd;
}

/// Reads a block and transforms it if it is wanted. Returns false if the bits are damaged.
[[gnu::always_inline]] inline bool ReadBlock(BitReader& bits, Component& component, int x, int y) {
  bits.Fill();
  HuffmanTable::Step step;
  if (!component.first->Take(bits, step)) return false;
  component.level += static_cast<uint32_t>(step.value());
  const bool wanted = x >= component.columns.begin && x < component.columns.end &&
                      y >= component.rows.begin && y < component.rows.end;
  if (!wanted) return SkipOthers(bits, *component.others);
  alignas(32) int16_t block[kCoefficients + 1] = {};
  const auto level = static_cast<int16_t>(component.level);
  const int end = ReadOthers(bits, *component.others, block);
  if (end == 0) return false;
  uint8_t* const out = component.block_at(x, y);
  if (end == 1 + HuffmanTable::kEnd) {
    InverseTransformFlat(level, component.quantizers[0], component.eighths, out, component.stride);
  } else {
    block[0] = level;
    InverseTransform(block, component.quantizers.data(), component.eighths, out, component.stride);
  }
  return true;
}

/// Reads units until no component wants a block. Returns false if the data are damaged.
bool ReadUnits(const ScanData& scan, int units_across, int units_down, int interval,
               std::array<Component, 3>& components) {
  size_t part = 0;
  int left = interval;
  BitReader bits(scan.bytes.data(), scan.bytes.data() + scan.ends[0]);
  for (int row = 0; row < units_down; ++row) {
    for (int column = 0; column < units_across; ++column) {
      if (interval > 0 && left-- == 0) {
        if (++part >= scan.ends.size()) return false;
        bits = BitReader(scan.bytes.data() + scan.ends[part - 1], scan.bytes.data() + scan.ends[part]);
        for (Component& component : components) component.level = 0;
        left = interval - 1;
      }
      for (Component& component : components) {
        for (int y = 0; y < component.down; ++y) {
          for (int x = 0; x < component.across; ++x) {
            if (!ReadBlock(bits, component, column * component.across + x, row * component.down + y))
              return false;
          }
        }
      }
      if (bits.overrun()) return false;
    }
  }
  return true;
}

SampleRange Blocks(const SampleRange& samples, int eighths) {
  return {samples.begin / eighths, (samples.end + eighths - 1) / eighths};
}

/// The code tables of a scan. Those of most files are the same, so the last ones are kept.
struct Tables {
  std::array<HuffmanTable, 4> first, others;
};

bool BuildTables(const jpeg_decompress_struct& library, Tables& tables) {
  for (int c = 0; c < 3; ++c) {
    const jpeg_component_info& info = library.comp_info[c];
    const JHUFF_TBL* first = library.dc_huff_tbl_ptrs[info.dc_tbl_no];
    const JHUFF_TBL* others = library.ac_huff_tbl_ptrs[info.ac_tbl_no];
    if (!tables.first[info.dc_tbl_no].Build(first->bits, first->huffval, true) ||
        !tables.others[info.ac_tbl_no].Build(others->bits, others->huffval, false))
      return false;
  }
  return true;
}

}  // namespace

bool HasPlainPlanes(const jpeg_decompress_struct& library) {
  if (library.progressive_mode || library.arith_code || library.data_precision != 8 ||
      library.num_components != 3 || library.comps_in_scan != 3 || library.jpeg_color_space != JCS_YCbCr ||
      library.Ss != 0 || library.Se != kCoefficients - 1 || library.Ah != 0 || library.Al != 0 ||
      library.max_h_samp_factor > 2 || library.max_v_samp_factor > 2)
    return false;
  for (int c = 0; c < 3; ++c) {
    const jpeg_component_info& info = library.comp_info[c];
    const bool whole = c == 0 ? info.h_samp_factor == library.max_h_samp_factor &&
                                    info.v_samp_factor == library.max_v_samp_factor
                              : info.h_samp_factor == 1 && info.v_samp_factor == 1;
    if (!whole || library.cur_comp_info[c] != &info || info.dc_tbl_no < 0 || info.dc_tbl_no >= 4 ||
        info.ac_tbl_no < 0 || info.ac_tbl_no >= 4 || info.quant_tbl_no < 0 || info.quant_tbl_no >= 4 ||
        library.dc_huff_tbl_ptrs[info.dc_tbl_no] == nullptr ||
        library.ac_huff_tbl_ptrs[info.ac_tbl_no] == nullptr ||
        library.quant_tbl_ptrs[info.quant_tbl_no] == nullptr)
      return false;
  }
  return true;
}

std::optional<Planes> DecodePlanes(const jpeg_decompress_struct& library,
                                   const std::array<PlanePart, 3>& wanted) {
  const uint8_t* begin = library.src->next_input_byte;
  const ScanData scan = ReadScan(begin, begin + library.src->bytes_in_buffer);
  if (scan.marker != kEndOfImage || !scan.ordered) return std::nullopt;
  thread_local Tables tables;
  if (!BuildTables(library, tables)) return std::nullopt;
  Planes planes;
  std::array<Component, 3> components;
  int units_down = 0;
  for (int c = 0; c < 3; ++c) {
    const jpeg_component_info& info = library.comp_info[c];
    Component& component = components[c];
    component.across = info.h_samp_factor;
    component.down = info.v_samp_factor;
    component.first = &tables.first[info.dc_tbl_no];
    component.others = &tables.others[info.ac_tbl_no];
    std::copy_n(library.quant_tbl_ptrs[info.quant_tbl_no]->quantval, kCoefficients,
                component.quantizers.begin());
    component.eighths = wanted[c].eighths;
    component.columns = Blocks(wanted[c].columns, component.eighths);
    component.rows = Blocks(wanted[c].rows, component.eighths);
    units_down = std::max(units_down, (component.rows.end + component.down - 1) / component.down);
    const int height = (component.rows.end - component.rows.begin) * component.eighths;
    const int width = (component.columns.end - component.columns.begin) * component.eighths;
    Plane& plane = planes[c];
    plane.stride = RoundUpToLanes(height) + kLanes;
    plane.samples = std::make_unique_for_overwrite<uint8_t[]>(static_cast<size_t>(plane.stride) * width);
    plane.left = component.columns.begin * component.eighths;
    plane.top = component.rows.begin * component.eighths;
    component.samples = plane.samples.get();
    component.stride = plane.stride;
  }
  const int unit = 8 * library.max_h_samp_factor;
  const int units_across = (static_cast<int>(library.image_width) + unit - 1) / unit;
  const auto interval = static_cast<int>(library.restart_interval);
  if (!ReadUnits(scan, units_across, units_down, interval, components)) return std::nullopt;
  return planes;
}

}  // namespace mtrun::datasets
