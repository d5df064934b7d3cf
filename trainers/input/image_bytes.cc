#include "trainers/input/image_bytes.h"

#include <algorithm>
#include <optional>
#include <utility>

#include <ATen/Parallel.h>
#include <torch/types.h>

#include "datasets/images/image_file.h"
#include "trainers/device/transfer.h"
#include "trainers/input/random_crop.h"

namespace mtrun::trainers {
namespace {

bool IsLarger(const datasets::PackedSplit& data, int size) {
  return data.height() > size || data.width() > size;
}

ImageBytes Resize(const ImageBytes& source, int size) {
  const at::Tensor pixels = PackImages(source, at::kCPU);
  ImageBytes out{.images = {},
                 .height = size,
                 .width = size,
                 .owner = {},
                 .labels = source.labels,
                 .gathered = source.gathered};
  out.owner = at::_upsample_bilinear2d_aa(pixels.permute({0, 3, 1, 2}).to(at::kFloat), {size, size}, false)
                  .round()
                  .clamp(0, 255)
                  .to(at::kByte)
                  .permute({0, 2, 3, 1})
                  .contiguous();
  for (int64_t i = 0; i < pixels.size(0); ++i)
    out.images.push_back(out.owner.data_ptr<uint8_t>() + i * out.bytes_per_image());
  return out;
}

datasets::RgbImage DecodeSquare(const datasets::PackedSplit& data, int64_t id, const datasets::ImageBox& box,
                                const datasets::ImageSize& target) {
  auto image =
      datasets::DecodeBox(data.record(id), box, target, datasets::DecodeMode::kExact, data.decode_limits(id));
  TORCH_CHECK(image.ok(), "image ", id, " of the data set: ", std::string(image.status().message()),
              " (mtdata verify finds damaged images)");
  return *std::move(image);
}

ImageBytes GatherEncoded(const datasets::PackedSplit& data, absl::Span<const int64_t> ids, int size,
                         double part) {
  const bool whole = !data.varies() && !IsLarger(data, size);
  const datasets::ImageSize target =
      whole ? datasets::ImageSize{data.height(), data.width()} : datasets::ImageSize{size, size};
  const auto n = static_cast<int64_t>(ids.size());
  ImageBytes out{.images = {}, .height = target.height, .width = target.width, .owner = {}};
  out.owner = at::empty({n, target.height, target.width, datasets::PackedSplit::channels()}, at::kByte);
  auto* pixels = out.owner.data_ptr<uint8_t>();
  at::parallel_for(0, n, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const datasets::ImageSize image_size = data.image_size(ids[i]);
      const datasets::ImageBox box =
          whole || part == 1 ? datasets::CentredBox(image_size, target) : CentreSquare(image_size, part);
      const datasets::RgbImage image = DecodeSquare(data, ids[i], box, target);
      std::copy(image.pixels.begin(), image.pixels.end(), pixels + i * out.bytes_per_image());
    }
  });
  for (int64_t i = 0; i < n; ++i) {
    out.images.push_back(pixels + i * out.bytes_per_image());
    out.gathered.Add(ids[i]);
    out.labels.push_back(data.label(ids[i]));
  }
  return out;
}

}  // namespace

ImageBytes GatherImages(const datasets::PackedSplit& data, absl::Span<const int64_t> ids, int size,
                        double part) {
  std::optional<datasets::PackedSplit::Held> held = data.Hold(ids);
  TORCH_CHECK(held, "images of the data set are not available");
  if (data.encoded()) return GatherEncoded(data, ids, size, part);
  ImageBytes source{.images = {}, .height = data.height(), .width = data.width(), .owner = {}};
  source.held = *std::move(held);
  source.images.reserve(ids.size());
  for (const int64_t id : ids) {
    source.images.push_back(data.image(id).data());
    source.gathered.Add(id);
    source.labels.push_back(data.label(id));
  }
  return IsLarger(data, size) ? Resize(source, size) : source;
}

at::Tensor PackImages(const ImageBytes& source, at::Device device) {
  if (source.packed) return source.owner;
  at::Tensor packed = HostBuffer({static_cast<int64_t>(source.images.size()), source.height, source.width, 3},
                                 at::kByte, device);
  auto* out = packed.data_ptr<uint8_t>();
  for (const uint8_t* image : source.images) out = std::copy_n(image, source.bytes_per_image(), out);
  return packed;
}

int64_t BytesOfAll(const datasets::PackedSplit& data, int size) {
  const bool square = IsLarger(data, size) || data.varies();
  const int64_t pixels = square ? int64_t{size} * size : int64_t{data.height()} * data.width();
  return data.size() * pixels * datasets::PackedSplit::channels();
}

}  // namespace mtrun::trainers
