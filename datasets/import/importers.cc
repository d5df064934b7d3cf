#include "datasets/import/importers.h"

#include <algorithm>

#include "absl/strings/str_split.h"
#include "base/status_macros.h"
#include "datasets/import/cifar.h"
#include "datasets/import/idx.h"
#include "datasets/import/image_folder.h"
#include "datasets/import/imagenet.h"
#include "datasets/import/webdataset.h"

namespace mtrun::datasets {

const std::vector<Importer>& Importers() {
  using Options = ImportOptions;
  using Names = std::vector<std::string>;
  static const auto& importers = *new std::vector<Importer>{
      {.name = "idx",
       .help = "the MNIST family: a folder with train-images-idx3-ubyte[.gz] and its three companions",
       .is_folder = LooksLikeIdx,
       .is_archive = nullptr,
       .open = [](const Options& options) { return OpenIdx(options.source); }},
      {.name = "cifar",
       .help = "CIFAR-10 and CIFAR-100, binary version: data_batch_*.bin and test_batch.bin, or train.bin "
               "and test.bin, in a folder or a tar archive",
       .is_folder = [](const std::string& folder) { return !FindCifarFolder(folder).empty(); },
       .is_archive = LooksLikeCifar,
       .open = [](const Options& options) { return OpenCifar(options.source); }},
      {.name = "imagenet",
       .help = "ImageNet as distributed: ILSVRC2012_img_train.tar, or the folder with it and "
               "ILSVRC2012_img_val.tar, the ground truth of val and meta.txt",
       .is_folder = LooksLikeImageNet,
       .is_archive = LooksLikeClassArchives,
       .open = OpenImageNet},
      {.name = "webdataset",
       .help =
           "WebDataset tars of <key>.jpg beside <key>.cls or <key>.json: a folder of them, one, or a brace "
           "list as in train-{000000..000146}.tar",
       .is_folder = LooksLikeWebDataset,
       .is_archive = LooksLikeSamples,
       .open = OpenWebDataset},
      {.name = "folder",
       .help =
           "JPEG and PNG images: train/<class>/<image> with val/... and test/..., or <class>/<image>, as a "
           "folder, a tar archive or a zip archive",
       .is_folder = LooksLikeImageFolder,
       .is_archive = [](const Names& names) { return IsInSplitFolder(absl::StrSplit(names.back(), '/')); },
       .open = OpenImageFolder},
  };
  return importers;
}

std::vector<std::string> ImporterNames() {
  std::vector<std::string> names;
  for (const Importer& importer : Importers()) names.push_back(importer.name);
  return names;
}

const Importer& ImporterNamed(const std::string& name) {
  const auto& all = Importers();
  const auto found =
      std::find_if(all.begin(), all.end(), [&](const Importer& importer) { return importer.name == name; });
  MT_CHECK(found != all.end()) << "no importer is named " << name;
  return *found;
}

}  // namespace mtrun::datasets
