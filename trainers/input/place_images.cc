#include "trainers/input/place_images.h"

#include <torch/types.h>
#include <torch/utils.h>

#include "base/status_macros.h"
#include "trainers/device/transfer.h"

namespace mtrun::trainers {
namespace {

enum TableColumn : int64_t { kTableId, kTableDx, kTableDy, kTableFlip, kTableColumns };

/// Source pixel that each pixel of an output's side shows.
struct Axis {
  at::Tensor source;   // int64 [n, size], inside the image even if nothing is shown
  at::Tensor visible;  // bool [n, size]
};

/// `moved`: [n, 1], distance of the window to the right of, or below, the centred image.
Axis SourceOf(const at::Tensor& moved, int64_t length, int size) {
  const at::Tensor source = at::arange(size, moved.options()).unsqueeze(0) + moved - (size - length) / 2;
  return {source.clamp(0, length - 1), source.ge(0).logical_and_(source.lt(length))};
}

}  // namespace

at::Tensor PlacementTable(absl::Span<const int64_t> ids, absl::Span<const Placement> placements,
                          at::Device device) {
  MT_CHECK(placements.empty() || placements.size() == ids.size());
  at::Tensor table = HostBuffer({static_cast<int64_t>(ids.size()), kTableColumns}, at::kLong, device);
  int64_t* row = table.data_ptr<int64_t>();
  for (size_t i = 0; i < ids.size(); ++i, row += kTableColumns) {
    const Placement p = placements.empty() ? Placement{} : placements[i];
    row[kTableId] = ids[i];
    row[kTableDx] = p.dx;
    row[kTableDy] = p.dy;
    row[kTableFlip] = p.flip ? 1 : 0;
  }
  return table;
}

datasets::SampleSum SamplesOf(const at::Tensor& table) {
  datasets::SampleSum samples;
  const int64_t* row = table.const_data_ptr<int64_t>();
  for (int64_t i = 0; i < table.size(0); ++i, row += kTableColumns) samples.Add(row[kTableId]);
  return samples;
}

at::Tensor PlaceImages(const at::Tensor& bytes, const at::Tensor& table, const at::Tensor& values, int size) {
  torch::NoGradGuard no_grad;
  const int64_t n = table.size(0), height = bytes.size(1), width = bytes.size(2);
  MT_CHECK(height <= size && width <= size);
  const auto column = [&](TableColumn c) { return table.narrow(1, c, 1); };
  const Axis y = SourceOf(column(kTableDy), height, size), x = SourceOf(column(kTableDx), width, size);
  // Flip first, then move, because the window cuts the mirrored original.
  const at::Tensor columns = at::where(column(kTableFlip).ne(0), width - 1 - x.source, x.source);
  const at::Tensor rows = column(kTableId) * height + y.source;
  const at::Tensor pixels = (rows.unsqueeze(2) * width + columns.unsqueeze(1)).view(-1);
  const at::Tensor visible = y.visible.unsqueeze(2).logical_and(x.visible.unsqueeze(1));
  const at::Tensor gathered = bytes.view({-1, bytes.size(3)}).index_select(0, pixels);
  const at::Tensor shown = gathered.mul(visible.view({-1, 1}));  // uncovered pixels are black, byte 0
  return values.index_select(0, shown.to(at::kInt).view(-1))
      .view({n, size, size, bytes.size(3)})
      .permute({0, 3, 1, 2});
}

}  // namespace mtrun::trainers
