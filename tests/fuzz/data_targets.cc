// mtdata's input from foreign files, and the trainers' input from packed sets.
#include <string>
#include <vector>

#include "base/log.h"
#include "base/sha256.h"
#include "datasets/files/archive_reader.h"
#include "datasets/import/cifar.h"
#include "datasets/import/idx.h"
#include "datasets/import/image_source.h"
#include "datasets/packed/encoded_shard.h"
#include "datasets/packed/index.h"
#include "datasets/packed/packed.h"
#include "tests/fuzz/fuzz_targets.h"
#include "tests/fuzz/input.h"
#include "tests/fuzz/invariant.h"

namespace mtrun::fuzz {
namespace {

using namespace datasets;  // NOLINT: the code under test

constexpr int64_t kMaxRead = 1 << 20;

/// An importer's output can be imported, or is refused by name.
void Look(const absl::StatusOr<std::unique_ptr<ImageSource>>& source) {
  if (!source.ok()) {
    MT_HOLDS(!source.status().message().empty());
    return;
  }
  if (!(*source)->FindShape().ok()) return;
  const PackedShape shape = (*source)->shape();
  MT_HOLDS(shape.height > 0 && shape.width > 0 && !shape.classes.empty() && !shape.splits.empty());
  for (const auto& [name, images] : shape.splits) MT_HOLDS(images > 0) << name;
}

const InputFolder& Folder() {
  static const InputFolder folder;
  return folder;
}

void ReadIndexFile(std::string_view bytes) {
  const auto index = DecodeIndex(bytes);
  if (!index.ok()) return;
  const auto again = DecodeIndex(EncodeIndex(*index));
  MT_HOLDS(again.ok() && *again == *index) << again.status();
}

/// Reads a shard of three images of 2x1 in two classes.
void ReadShard(std::string_view bytes) {
  Index index{.height = 2, .width = 1, .classes = {"a", "b"}};
  index.splits["train"] = {
      .class_counts = {2, 1},
      .shards = {{.images = 3, .bytes = static_cast<int64_t>(bytes.size()), .sha256 = std::string(64, '0')}}};
  Folder().Put(kIndexFile, EncodeIndex(index));
  Folder().Put(ShardFile("train", 0), bytes);
  const auto split = PackedSplit::Open(Folder().path(), "train");
  if (!split.ok()) return;
  for (int64_t i = 0; i < split->size(); ++i) {
    MT_HOLDS(split->label(i) >= 0 && split->label(i) < 2);
    MT_HOLDS(split->image(i).size() == 6);
    MT_HOLDS(!Sha256Hex({reinterpret_cast<const char*>(split->image(i).data()), 6}).empty());  // readable
  }
}

/// Reads a shard of encoded images, whatever the index says about it.
void ReadEncodedShard(std::string_view bytes) {
  const auto shard = ParseEncodedShard({reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()}, 3);
  if (!shard.ok()) return;
  for (int64_t i = 0; i < 3; ++i) {
    const auto record = shard->record(i);
    MT_HOLDS(!record.empty() && shard->size(i).pixels() > 0 && shard->label(i) == shard->label(i));
    MT_HOLDS(!Sha256Hex(record).empty());  // readable
  }
}

}  // namespace

void FuzzTar(std::string_view bytes) {
  const InputFile file(bytes);
  auto reader = ArchiveReader::Open(file.path());
  while (reader.ok()) {
    const auto more = reader->Next();
    if (!more.ok() || !*more) return;
    if (!reader->is_file()) continue;
    const auto contents = reader->Read(kMaxRead);
    MT_HOLDS(!contents.ok() || static_cast<int64_t>(contents->size()) <= kMaxRead);
  }
}

void FuzzIdx(std::string_view bytes) {
  const std::vector<std::string_view> files = Cut(bytes, 4);
  Folder().Put("train-images-idx3-ubyte", files[0]);
  Folder().Put("train-labels-idx1-ubyte", files[1]);
  Folder().Put("t10k-images-idx3-ubyte", files[2]);
  Folder().Put("t10k-labels-idx1-ubyte", files[3]);
  Look(OpenIdx(Folder().path()));
}

void FuzzCifar(std::string_view bytes) {
  log::SetSink([](const std::string&) {});  // sets of unpublished sizes cause a warning
  const InputFile file(bytes);
  Look(OpenCifar(file.path()));
  log::SetSink({});
}

void FuzzIndex(std::string_view bytes) {
  if (bytes.empty()) return;
  if (bytes[0] == 'e') return ReadEncodedShard(bytes.substr(1));
  return bytes[0] % 2 == 0 ? ReadIndexFile(bytes.substr(1)) : ReadShard(bytes.substr(1));
}

}  // namespace mtrun::fuzz
