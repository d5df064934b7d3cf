#include "datasets/files/file_tree.h"

#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <map>
#include <optional>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "absl/types/span.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "base/utf8.h"
#include "datasets/files/source_path.h"

namespace mtrun::datasets {
namespace {

namespace fs = std::filesystem;

constexpr int kClassDepth = 3;  // <split>/<class>/<image>
constexpr int kMaxDepth = 100;
constexpr size_t kTextBytes = 1 << 20;
constexpr int kMaxNesting = 1;
constexpr size_t kFilesToSay = 1 << 12;
constexpr std::chrono::seconds kSayEvery{10};

absl::string_view WithoutTar(absl::string_view name) { return name.substr(0, name.size() - 4); }

/// Returns the path, after the prefix, up to and including the one split folder that contains all files:
/// "train/", "set/train/". Returns "" if there is none. Files that cannot be images may be outside.
absl::string_view SplitFolderOf(absl::Span<const SourceFile> files, size_t prefix_size) {
  absl::string_view common;
  for (const SourceFile& file : files) {
    const absl::string_view path = file.path.substr(prefix_size);
    if (!common.empty() && absl::StartsWith(path, common)) continue;
    const std::vector<absl::string_view> names = absl::StrSplit(path, '/');
    if (IsInHiddenFolder(names) || IsNoImageName(names.back())) continue;
    if (!common.empty()) return "";
    const auto split = std::find_if(names.begin(), names.end() - 1, IsSplitFolder);
    if (split == names.end() - 1) return "";
    common = path.substr(0, static_cast<size_t>(split->data() - path.data()) + split->size() + 1);
  }
  return common;
}

}  // namespace

/// An archive to list: its file, its location there, the prefix of its paths.
struct FileTree::Level {
  uint32_t holder = 0;
  bool spooled = false;  // the archive was itself unpacked
  int nesting = 0;
  std::string noun, prefix;
  std::string inside = "";  // folder of the archive whose entries are listed: "" or "a/b/"
};

/// Returns the path in the source of an entry's name.
std::string FileTree::PathOf(absl::string_view name, const Level& level) {
  return absl::StrCat(level.prefix, absl::StripPrefix(name, level.inside));
}

/// A hard link, and the path of its target.
struct FileTree::HardLink {
  size_t file = 0;
  std::string target;
};

FileTree::FileTree(const std::string& spool_folder, bool any_depth)
    : any_depth_(any_depth), contents_(spool_folder) {}
FileTree::~FileTree() = default;

absl::string_view FileTree::Keep(absl::string_view text) {
  if (texts_.empty() || texts_.back().capacity() - texts_.back().size() < text.size()) {
    texts_.emplace_back();
    texts_.back().reserve(std::max(kTextBytes, text.size()));
  }
  std::string& block = texts_.back();
  block.append(text.data(), text.size());
  return absl::string_view(block).substr(block.size() - text.size());
}

void FileTree::Add(absl::string_view path, int64_t bytes, int64_t modified, const Place& place) {
  files_.push_back({.path = Keep(path), .bytes = bytes, .modified = modified});
  places_.push_back(place);
  if (files_.size() % kFilesToSay == 0 && MonotonicNow() - said_ >= kSayEvery) {
    said_ = MonotonicNow();
    log::Info("listed ", files_.size(), " files");
  }
}

absl::Status FileTree::AddFolder(const std::string& folder, const std::string& prefix) {
  std::error_code error;
  std::vector<std::string> tops, others;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    std::error_code ignored;
    const std::string name = entry->path().filename().string();
    (entry->is_directory(ignored) && IsSplitFolder(name) ? tops : others).push_back(name);
  }
  if (error) return ErrnoStatus(error.value(), absl::StrCat("list ", folder));
  for (const std::string& other : others) {
    if (!tops.empty()) CountBeside(absl::StrCat(folder, "/", other), other);
  }
  const bool of_one = !prefix.empty() && tops.size() == 1;
  const auto root = static_cast<uint32_t>(roots_.size());
  roots_.push_back(of_one ? absl::StrCat(folder, "/", tops[0], "/") : folder + "/");
  prefix_size_.push_back(prefix.size());
  if (of_one) return Collect(root, "", prefix, 2);
  if (tops.empty()) return Collect(root, "", prefix, 1);
  for (const std::string& top : tops) MT_RETURN_IF_ERROR(Collect(root, top + "/", prefix, 2));
  return absl::OkStatus();
}

/// Counts the files at `path`, which is beside the split folders and is called `name`, by their names only.
/// Ignores folders that cannot be listed.
void FileTree::CountBeside(const std::string& path, const std::string& name) {
  const auto is_hidden = [](const std::string& folder) { return IsInHiddenFolder({folder, ""}); };
  std::error_code error;
  // A link is one entry, because its target may be listed already, or be outside of the source.
  if (!fs::is_directory(fs::symlink_status(path, error))) return passed_over_.AddOutside(name);
  if (is_hidden(name)) return;
  constexpr auto kOptions = fs::directory_options::skip_permission_denied;
  for (fs::recursive_directory_iterator entry(path, kOptions, error), end; !error && entry != end;
       entry.increment(error)) {
    std::error_code ignored;
    if (!entry->is_directory(ignored)) {
      passed_over_.AddOutside(absl::StrCat(name, entry->path().string().substr(path.size())));
    } else if (is_hidden(entry->path().filename().string())) {
      entry.disable_recursion_pending();
    }
  }
}

/// Lists `folder` ("" or "a/b/") of a root; its entries are `depth` names deep. Lists a folder that is too
/// deep as a path, which ListTree refuses; also a link to one in a class folder, because it may lead back.
absl::Status FileTree::Collect(uint32_t root, const std::string& folder, const std::string& prefix,
                               int depth) {
  std::error_code error;
  const std::string at = absl::StrCat(roots_[root], folder);
  for (fs::directory_iterator entry(at, error), end; !error && entry != end; entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    struct stat about = {};
    const bool is_folder = stat(entry->path().c_str(), &about) == 0 && S_ISDIR(about.st_mode);
    if (is_folder && IsInHiddenFolder({name, ""})) continue;
    if (IsHiddenName(name)) {
      ++passed_over_.others;
      continue;
    }
    std::error_code ignored;
    const bool is_shallow = depth < kClassDepth;
    if (is_folder && (is_shallow || (depth < kMaxDepth && !entry->is_symlink(ignored)))) {
      MT_RETURN_IF_ERROR(Collect(root, absl::StrCat(folder, name, "/"), prefix, depth + 1));
    } else if (!is_folder && (is_shallow || any_depth_) && HasPlainTarName(name)) {
      MT_RETURN_IF_ERROR(AddArchive(at + name, absl::StrCat(prefix, folder, WithoutTar(name), "/")));
    } else {
      Add(absl::StrCat(prefix, folder, name, is_folder ? "/" : ""), about.st_size,
          about.st_mtim.tv_sec * 1'000'000'000 + about.st_mtim.tv_nsec, {.offset = 0, .holder = root});
    }
  }
  return error ? ErrnoStatus(error.value(), absl::StrCat("list ", at)) : absl::OkStatus();
}

absl::Status FileTree::AddArchive(const std::string& path, const std::string& prefix) {
  const SourcePath place = FindSourcePath(path);
  Level level{.noun = path, .prefix = prefix, .inside = place.inside};
  MT_ASSIGN_OR_RETURN(level.holder, contents_.AddHolder(place.file));
  MT_ASSIGN_OR_RETURN(ArchiveReader reader, ArchiveReader::Open(place.file));
  return ListEntries(reader, level);
}

absl::Status FileTree::ListEntries(ArchiveReader& reader, const Level& level) {
  const size_t first_file = files_.size(), first_link = links_.size();
  for (;;) {
    MT_ASSIGN_OR_RETURN(const bool more, reader.Next());
    if (!more) {
      passed_over_.others += reader.hidden_files();
      ResolveLinks(first_file, first_link);
      return absl::OkStatus();
    }
    if (!absl::StartsWith(reader.name(), level.inside)) continue;
    const bool nested = reader.is_file() && level.nesting < kMaxNesting && HasPlainTarName(reader.name());
    MT_RETURN_IF_ERROR(nested ? ListNested(reader, level) : AddEntry(reader, level));
  }
}

/// Gives the links from `first_link` on the contents of the last file before them with their target's path.
void FileTree::ResolveLinks(size_t first_file, size_t first_link) {
  if (links_.size() == first_link) return;
  std::map<absl::string_view, std::optional<size_t>> targets;
  for (size_t i = first_link; i < links_.size(); ++i) targets.emplace(links_[i].target, std::nullopt);
  size_t next = first_link;
  for (size_t file = first_file; file < files_.size(); ++file) {
    if (next < links_.size() && links_[next].file == file) {
      if (const auto target = targets[links_[next].target]) {
        files_[file].bytes = files_[*target].bytes;
        places_[file] = places_[*target];
      }
      ++next;
    }
    const auto found = targets.find(files_[file].path);
    if (found != targets.end()) found->second = file;
  }
  links_.resize(first_link);
}

absl::Status FileTree::AddEntry(ArchiveReader& reader, const Level& level) {
  using Kind = Place::Kind;
  Place place{.offset = reader.contents_at(), .holder = level.holder, .kind = Kind::kPart};
  int64_t bytes = reader.bytes();
  if (!reader.is_file()) {
    place.kind = Kind::kLink;
    if (!reader.hard_link().empty())
      links_.push_back({.file = files_.size(), .target = PathOf(reader.hard_link(), level)});
  } else if (reader.is_encrypted()) {
    place.kind = Kind::kEncrypted;
  } else if (bytes > kMaxFileBytes) {  // Read returns the error
    place.kind = Kind::kPart;
  } else if (reader.is_zip()) {
    place = {.offset = reader.header_at(), .holder = level.holder, .kind = Kind::kZipEntry};
    if (bytes < 0) {  // if it is damaged, Read returns the error, and the others can be imported
      MT_ASSIGN_OR_RETURN(bytes, reader.Measure(kMaxFileBytes));
    }
  } else if (reader.contents_at() < 0) {
    MT_ASSIGN_OR_RETURN(const ByteRange range, contents_.Spool(reader, kMaxFileBytes));
    place = {.offset = range.begin, .holder = level.holder, .kind = Kind::kSpooled};
    bytes = range.size;
  } else if (level.spooled) {
    place.kind = Kind::kSpooled;
  }
  Add(PathOf(reader.name(), level), std::max<int64_t>(0, bytes), contents_.modified(level.holder), place);
  return absl::OkStatus();
}

absl::Status FileTree::ListNested(ArchiveReader& reader, const Level& level) {
  Level inner = level;
  ++inner.nesting;
  inner.noun = absl::StrCat(level.noun, ": ", AsPlainText(reader.name()));
  inner.prefix = absl::StrCat(PathOf(WithoutTar(reader.name()), level), "/");
  inner.inside = "";
  if (reader.contents_at() < 0) {
    MT_ASSIGN_OR_RETURN(const ByteRange range, contents_.Spool(reader, INT64_MAX));
    inner.spooled = true;
    MT_ASSIGN_OR_RETURN(ArchiveReader nested, ArchiveReader::OpenRange(range, inner.noun));
    return ListEntries(nested, inner);
  }
  MT_ASSIGN_OR_RETURN(ArchiveReader nested, ArchiveReader::OpenRange(reader.contents(), inner.noun));
  return ListEntries(nested, inner);
}

absl::Status FileTree::AddArchiveOfASplit(const std::string& path, const std::string& prefix) {
  const size_t first = files_.size();
  MT_RETURN_IF_ERROR(AddArchive(path, prefix));
  const absl::Span<SourceFile> added = absl::MakeSpan(files_).subspan(first);
  const absl::string_view folder = SplitFolderOf(added, prefix.size());
  if (folder.empty()) return absl::OkStatus();
  for (SourceFile& file : added) {
    const absl::string_view inside = file.path.substr(prefix.size());
    if (absl::StartsWith(inside, folder))
      file.path = Keep(absl::StrCat(prefix, inside.substr(folder.size())));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> FileTree::Read(size_t i) const {
  const SourceFile& file = files_[i];
  const Place& place = places_[i];
  if (file.bytes > kMaxFileBytes) return TooLargeFile();
  if (place.kind != Place::Kind::kWhole) return contents_.Read(place, file.bytes);
  const absl::string_view below = file.path.substr(prefix_size_[place.holder]);
  return Contents::ReadWhole(absl::StrCat(roots_[place.holder], below), file.bytes, file.modified);
}

bool IsSplitFolder(absl::string_view name) {
  return name == "train" || name == "test" || name == "val" || name == "valid" || name == "validation";
}

bool IsInSplitFolder(const std::vector<absl::string_view>& names) {
  return std::any_of(names.begin(), names.end() - 1, IsSplitFolder);
}

absl::StatusOr<std::shared_ptr<const FileTree>> OpenFileTree(const std::vector<TreeSource>& sources,
                                                             const std::string& spool_folder,
                                                             bool any_depth) {
  auto tree = std::make_shared<FileTree>(spool_folder, any_depth);
  for (const TreeSource& source : sources) {
    std::error_code error;
    const bool is_folder = fs::is_directory(source.path, error);
    MT_RETURN_IF_ERROR(is_folder               ? tree->AddFolder(source.path, source.prefix)
                       : source.prefix.empty() ? tree->AddArchive(source.path, "")
                                               : tree->AddArchiveOfASplit(source.path, source.prefix));
  }
  return tree;
}

}  // namespace mtrun::datasets
