#include "datasets/packed/info.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/utf8.h"
#include "datasets/files/progress.h"

namespace mtrun::datasets {
namespace {

constexpr int kNameWidth = 12, kNumberWidth = 16, kBarWidth = 30;

/// Counts columns on a terminal: bytes that do not continue a UTF-8 character.
int Columns(const std::string& text) {
  return static_cast<int>(std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; }));
}

/// Formats a row: first cell left-aligned, numbers right-aligned.
std::string InfoLine(const std::string& name, int name_width, const std::vector<std::string>& cells) {
  std::string line = name + std::string(std::max(0, name_width - Columns(name)), ' ');
  for (const std::string& cell : cells) absl::StrAppendFormat(&line, " %*s", kNumberWidth - 1, cell);
  return line + "\n";
}

std::string SizeLine(const Index& index) {
  if (!index.encoded) return absl::StrFormat("image size  %dx%dx3 uint8 RGB", index.height, index.width);
  return absl::StrFormat("image size  %dx%d to %dx%d, JPEG and PNG files", index.min_height, index.min_width,
                         index.height, index.width);
}

/// Prints the bins from the first with images to the last: a gap in between is informative.
std::string SizeTable(const Census& census) {
  size_t first = kSideBins.size(), last = 0;
  int64_t sum = 0, most = 1;
  for (size_t i = 0; i < kSideBins.size(); ++i) {
    if (census.by_side[i] == 0) continue;
    first = std::min(first, i);
    last = i;
    sum += census.by_side[i];
    most = std::max(most, census.by_side[i]);
  }
  std::string text = InfoLine("shorter side", kNameWidth, {"images", "share"});
  for (size_t i = first; i <= last; ++i) {
    const int64_t images = census.by_side[i];
    const double share = static_cast<double>(images) / static_cast<double>(sum);
    // Rounded up, so that the rarest size is visible.
    const auto bar = static_cast<size_t>((images * kBarWidth + most - 1) / most);
    std::string line =
        InfoLine(SideBinName(i), kNameWidth, {WithCommas(images), absl::StrFormat("%.1f %%", 100 * share)});
    line.pop_back();
    absl::StrAppend(&text, line, bar == 0 ? "" : "  ", std::string(bar, '#'), "\n");
  }
  return text;
}

std::string FormatTable(const Census& census) {
  std::string text = InfoLine("format", kNameWidth, {"images", "bytes"});
  const auto add = [&](const char* name, const FormatCount& count) {
    if (count.images > 0)
      text += InfoLine(name, kNameWidth, {WithCommas(count.images), WithCommas(count.bytes)});
  };
  add("JPEG", census.jpeg);
  add("PNG", census.png);
  add("other", census.other);
  return text;
}

}  // namespace

std::string CensusText(const Census& census) {
  return absl::StrCat(
      SizeTable(census), "\n", FormatTable(census), "\n",
      InfoLine("per image", kNameWidth, {"smallest", "median", "largest"}),
      InfoLine("bytes", kNameWidth,
               {WithCommas(census.smallest), WithCommas(census.median), WithCommas(census.largest)}));
}

std::string InfoText(const std::string& path, const Index& index) {
  int width = kNameWidth;
  for (const std::string& name : index.classes) width = std::max(width, Columns(name));
  size_t shards = 0;
  for (const auto& [name, split] : index.splits) shards += split.shards.size();
  std::string text = absl::StrFormat(
      "%s\n  %s\n  images      %s\n  classes     %d\n  bytes       %s in %d "
      "shard%s\n  digest      %s\n\n",
      path, SizeLine(index), WithCommas(index.images()), index.classes.size(), WithCommas(index.bytes()),
      shards, shards == 1 ? "" : "s", IndexDigest(index));

  text += InfoLine("split", width, {"images", "shards", "bytes"});
  std::vector<std::string> heads;
  for (const auto& [name, split] : index.splits) {
    text += InfoLine(name, width,
                     {WithCommas(split.images()), WithCommas(static_cast<int64_t>(split.shards.size())),
                      WithCommas(split.bytes())});
    heads.push_back(name);
  }
  text += "\n" + InfoLine("class", width, heads);
  for (size_t i = 0; i < index.classes.size(); ++i) {
    std::vector<std::string> counts;
    for (const auto& [name, split] : index.splits) counts.push_back(WithCommas(split.class_counts[i]));
    text += InfoLine(index.classes[i], width, counts);
  }
  return text;
}

std::string LeftOutText(int64_t bad, const LeftOut& counts) {
  const int reason_width = counts.outside > 0 ? 37 : 24;  // width of the longest reason
  constexpr size_t kNamed = 5;
  std::string text;
  const auto row = [&](const char* reason, int64_t files, const std::string& note) {
    if (files == 0) return;
    std::string line = InfoLine(reason, reason_width, {WithCommas(files)});
    line.pop_back();
    absl::StrAppend(&text, line, note.empty() ? "" : "  ", note, "\n");
  };
  std::string classes;
  for (size_t i = 0; i < counts.untrained_classes.size() && i < kNamed; ++i)
    absl::StrAppend(&classes, i > 0 ? ", " : "", AsPlainText(counts.untrained_classes[i]));
  if (counts.untrained_classes.size() > kNamed) classes += ", ...";
  row("bad image", bad, "");
  row("not an image by its name", counts.others, "");
  row("duplicate name", counts.duplicates, "the last one is used");
  row("no class given", counts.unlabelled, "");
  row("no such image field", counts.imageless, "");
  row("class missing in train", counts.untrained, classes);
  row("outside of the split or class folders", counts.outside, AsPlainText(counts.outside_folder));
  return text.empty() ? "" : absl::StrCat("\n", InfoLine("left out", reason_width, {"files"}), text);
}

}  // namespace mtrun::datasets
