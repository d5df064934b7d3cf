// --predict: the most probable classes of image files of any size.
#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include <torch/types.h>

#include "absl/strings/str_cat.h"
#include "base/log.h"
#include "base/posix.h"
#include "base/standard_output.h"
#include "base/status_macros.h"
#include "datasets/images/exif.h"
#include "datasets/images/image_file.h"
#include "datasets/images/image_names.h"
#include "datasets/images/jpeg.h"
#include "datasets/images/resample.h"
#include "trainers/device/torch_status.h"
#include "trainers/input/byte_values.h"
#include "trainers/input/place_images.h"
#include "trainers/program/modes.h"
#include "trainers/program/prediction.h"
#include "trainers/program/trained_network.h"

namespace mtrun::trainers {
namespace {

namespace fs = std::filesystem;

constexpr size_t kAtOnce = 64;

/// Returns the files as named. A folder is replaced by the images in and below it, sorted by name, without
/// hidden ones and those in hidden folders, as in an import.
absl::StatusOr<std::vector<std::string>> ListFiles(const std::vector<std::string>& named) {
  std::vector<std::string> files;
  for (const std::string& name : named) {
    std::error_code error;
    if (!fs::is_directory(name, error)) {
      files.push_back(name);
      continue;
    }
    const size_t first = files.size();
    for (fs::recursive_directory_iterator item(name, error), end; !error && item != end;
         item.increment(error)) {
      std::error_code ignored;
      const bool hidden = item->path().filename().string().front() == '.';
      if (hidden && item->is_directory(ignored)) item.disable_recursion_pending();
      if (!hidden && datasets::HasImageName(item->path().string())) files.push_back(item->path().string());
    }
    if (error) return absl::InternalError(absl::StrCat("list ", name, ": ", error.message()));
    std::sort(files.begin() + static_cast<std::ptrdiff_t>(first), files.end());
    if (files.size() == first)
      return absl::NotFoundError(absl::StrCat(name, " contains no ", datasets::ImageExtensions(), " files"));
  }
  return files;
}

/// Returns the whole image, small enough for a page, as a JPEG.
std::string SmallJpeg(const datasets::RgbImage& image) {
  constexpr int kSide = 160, kQuality = 85;
  return datasets::EncodeJpeg(datasets::ResizeImage(image, datasets::FitInto(image.size, kSide, kSide)),
                              kQuality);
}

/// Reads an image, turned as the training images were, cuts its middle as for test images, and resizes it to
/// the network's input size. `jpeg`: null if no picture of it is needed.
absl::StatusOr<datasets::RgbImage> ReadImage(const std::string& file, const TrainedNetwork& network,
                                             std::string* jpeg) {
  const datasets::ImageSize target = network.description.target();
  MT_ASSIGN_OR_RETURN(const std::string bytes, ReadFile(file));
  MT_ASSIGN_OR_RETURN(datasets::RgbImage image, datasets::DecodeAnyImage(bytes));
  if (network.description.turns()) image = datasets::Upright(image, datasets::ExifOrientation(bytes));
  if (jpeg != nullptr) *jpeg = SmallJpeg(image);
  const datasets::ImageBox box = network.description.Shown(image.size);
  return datasets::ResizeBilinear(image, datasets::InEighths(box), target);
}

/// Makes [n, 3, S, S] from images of one size.
at::Tensor ToInput(const std::vector<datasets::RgbImage>& images, const TrainedNetwork& network) {
  const datasets::ImageSize size = images.front().size;
  at::Tensor bytes = at::empty({static_cast<int64_t>(images.size()), size.height, size.width, 3}, at::kByte);
  auto* out = bytes.data_ptr<uint8_t>();
  std::vector<int64_t> ids;
  for (const datasets::RgbImage& image : images) {
    out = std::copy(image.pixels.begin(), image.pixels.end(), out);
    ids.push_back(static_cast<int64_t>(ids.size()));
  }
  const BatchOptions& batch = network.batch;
  return PlaceImages(bytes, PlacementTable(ids, {}, at::kCPU), NormalisedByteValues(batch.dtype),
                     batch.image_size)
      .to(batch.device)
      .contiguous(batch.format);
}

/// Predicts files [first, first + kAtOnce). If a file cannot be read, its prediction has an error.
/// `pictures`: makes a small picture of each.
std::vector<Prediction> PredictSome(const TrainedNetwork& network, const std::vector<std::string>& files,
                                    size_t first, size_t k, bool pictures) {
  std::vector<Prediction> predictions;
  std::vector<datasets::RgbImage> images;
  std::vector<size_t> read;
  for (size_t i = first; i < std::min(first + kAtOnce, files.size()); ++i) {
    predictions.push_back({.file = files[i]});
    absl::StatusOr<datasets::RgbImage> image =
        ReadImage(files[i], network, pictures ? &predictions.back().jpeg : nullptr);
    if (!image.ok()) {
      predictions.back().error = std::string(image.status().message());
      continue;
    }
    read.push_back(predictions.size() - 1);
    images.push_back(*std::move(image));
  }
  if (images.empty()) return predictions;
  torch::NoGradGuard no_grad;
  const at::Tensor probabilities =
      network.task->Scores(ToInput(images, network)).to(at::kDouble).softmax(1).cpu().contiguous();
  for (size_t row = 0; row < read.size(); ++row) {
    const double* values =
        probabilities.const_data_ptr<double>() + static_cast<int64_t>(row) * probabilities.size(1);
    predictions[read[row]].best =
        TopK({values, values + probabilities.size(1)}, network.description.classes, k);
  }
  return predictions;
}

}  // namespace

absl::StatusOr<int> PredictMode(Run& run) {
  std::vector<std::string> named = run.files;
  named.insert(named.begin(), run.settings.Text("predict"));
  const std::string out = run.settings.Text("out");
  PredictionFormat format = PredictionFormat::kCsv;
  if (!out.empty()) {
    MT_ASSIGN_OR_RETURN(format, FormatOf(out));
  }
  MT_ASSIGN_OR_RETURN(const std::vector<std::string> files, ListFiles(named));
  MT_ASSIGN_OR_RETURN(const TrainedNetwork network, OpenTrained(run));
  if (network.task->classes() == 0)
    return absl::InvalidArgumentError(
        absl::StrCat("--predict: ", run.program.name, " does not predict classes"));
  if (Asked(run.settings, "check")) return 0;
  if (run.assignment.rank != 0) return 0;
  const size_t k =
      std::min(static_cast<size_t>(run.settings.Int("top_k")), network.description.classes.size());
  std::string text = HeadLine(format, k);
  size_t failed = 0;
  for (size_t first = 0; first < files.size(); first += kAtOnce) {
    std::vector<Prediction> some;
    MT_RETURN_IF_ERROR(TorchStatus(
        "predict", [&] { some = PredictSome(network, files, first, k, format == PredictionFormat::kPage); }));
    for (const Prediction& prediction : some) {
      text += ToLine(prediction, format, k);
      if (prediction.error.empty()) continue;
      ++failed;
      log::Warning(prediction.file, " is skipped: ", prediction.error);
    }
  }
  text += TailLine(format);
  if (out.empty()) {
    if (const absl::Status told = PrintOut(text); !told.ok()) {
      log::Error(std::string(told.message()));
      return 1;  // not 2, which means wrong arguments
    }
  } else {
    MT_RETURN_IF_ERROR(WriteFileAtomically(out, text));
    log::Info(files.size() - failed, " of ", files.size(), " images classified; wrote ", out,
              " with the weights of ", network.source.what);
  }
  return failed == files.size() ? 1 : 0;
}

}  // namespace mtrun::trainers
