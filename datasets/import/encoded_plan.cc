#include "datasets/import/encoded_plan.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/sha256.h"

namespace mtrun::datasets {

std::vector<ShardPlan> PlanShards(const ImageFiles& files, int64_t shard_bytes) {
  std::vector<ShardPlan> shards;
  int64_t bytes = 0;
  const std::vector<TreeImage>& images = files.listing.images;
  for (size_t i = 0; i < images.size(); ++i) {
    const int64_t more = files.file(i).bytes;
    const bool same_split = !shards.empty() && shards.back().split == images[i].split;
    if (!same_split || bytes + more > shard_bytes) {
      shards.push_back({std::string(images[i].split), same_split ? shards.back().number + 1 : 0, i, 0});
      bytes = 0;
    }
    ++shards.back().count;
    bytes += more;
  }
  return shards;
}

std::string ImportKey(const ImageFiles& files, const ImageRules& rules, int64_t shard_bytes) {
  Sha256 sha;
  sha.Update(absl::StrCat("encoded import 3\n", rules.Describe(), "\n", shard_bytes, "\n",
                          absl::StrJoin(files.listing.classes, "/"), "\n"));
  for (size_t i = 0; i < files.listing.images.size(); ++i) {
    const TreeImage& image = files.listing.images[i];
    const SourceFile& file = files.file(i);
    sha.Update(absl::StrCat(image.split, " ", image.label, " ", file.bytes, " ", file.modified, " ",
                            file.path, "\n"));
  }
  return sha.Hex().substr(0, 16);
}

}  // namespace mtrun::datasets
