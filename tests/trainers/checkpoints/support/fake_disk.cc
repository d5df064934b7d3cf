#include "tests/trainers/checkpoints/support/fake_disk.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace mtrun::checkpoints {
namespace {

std::vector<std::string> Parts(const std::string& path) {
  return absl::StrSplit(path, '/', absl::SkipEmpty());
}
std::string Name(const std::string& path) { return Parts(path).back(); }

}  // namespace

class FakeDisk::File : public NewFile {
 public:
  File(FakeDisk& disk, std::shared_ptr<Node> node) : disk_(disk), node_(std::move(node)) {}

  absl::StatusOr<size_t> Write(absl::Span<const uint8_t> bytes) override {
    const bool fault_here = disk_.fault_ == Fault::kShortWrite && disk_.operations_ == disk_.fault_at_;
    if (const absl::Status status = disk_.Begin("write"); !status.ok()) return status;
    const size_t taken = fault_here ? std::min<size_t>(1, bytes.size()) : bytes.size();
    node_->bytes.append(reinterpret_cast<const char*>(bytes.data()), taken);
    return taken;
  }
  absl::Status Sync() override {
    if (const absl::Status status = disk_.Begin("sync"); !status.ok()) return status;
    node_->synced = node_->bytes;
    return absl::OkStatus();
  }

 private:
  FakeDisk& disk_;
  const std::shared_ptr<Node> node_;
};

FakeDisk::FakeDisk() : root_(std::make_shared<Node>()) { root_->folder = true; }
FakeDisk::FakeDisk(const FakeDisk& other)
    : Files(other),
      free_bytes(other.free_bytes),
      exchanges(other.exchanges),
      refused(other.refused),
      root_(Clone(*other.root_)) {}

std::shared_ptr<FakeDisk::Node> FakeDisk::Clone(const Node& node) {
  auto copy = std::make_shared<Node>(node);
  for (auto& [name, child] : copy->now) {
    const auto on_disk = copy->disk.find(name);
    const bool same = on_disk != copy->disk.end() && on_disk->second == child;
    child = Clone(*child);
    if (same) on_disk->second = child;
  }
  return copy;
}

std::shared_ptr<FakeDisk::Node> FakeDisk::Survivor(const Node& node, Survives survives) {
  auto copy = std::make_shared<Node>();
  copy->folder = node.folder;
  const size_t unsynced = node.bytes.size() - node.synced.size();
  copy->bytes = node.synced;
  if (survives == Survives::kEverything) copy->bytes = node.bytes;
  if (survives == Survives::kNamesAndHalfOfTheBytes)
    copy->bytes = node.bytes.substr(0, node.synced.size() + unsynced / 2);
  copy->synced = copy->bytes;
  for (const auto& [name, child] : survives == Survives::kSyncedOnly ? node.disk : node.now) {
    copy->now[name] = Survivor(*child, survives);
  }
  copy->disk = copy->now;
  return copy;
}

void FakeDisk::Plan(Fault fault, int operation) {
  fault_ = fault;
  fault_at_ = operation;
  operations_ = 0;
  fired_ = false;
}

FakeDisk FakeDisk::AfterStop(Survives survives) const {
  FakeDisk disk;
  disk.root_ = Survivor(*root_, survives);
  return disk;
}

std::string* FakeDisk::Bytes(const std::string& path) {
  const auto node = Find(path);
  return node && !node->folder ? &node->bytes : nullptr;
}

std::shared_ptr<FakeDisk::Node> FakeDisk::Find(const std::string& path) const {
  std::shared_ptr<Node> node = root_;
  for (const std::string& part : Parts(path)) {
    const auto next = node->now.find(part);
    if (next == node->now.end()) return nullptr;
    node = next->second;
  }
  return node;
}

std::shared_ptr<FakeDisk::Node> FakeDisk::ParentOf(const std::string& path) const {
  return Find(path.substr(0, path.rfind('/')));
}

absl::Status FakeDisk::Begin(const char* what) {
  const int number = operations_++;
  if (stopped_) return absl::UnavailableError("the machine has stopped");
  if (fault_ == Fault::kNone || number != fault_at_) return absl::OkStatus();
  fired_ = true;
  if (fault_ == Fault::kShortWrite) return absl::OkStatus();
  stopped_ = fault_ == Fault::kStop;
  return absl::UnavailableError(absl::StrCat(what, ": fault at operation ", number));
}

absl::Status FakeDisk::MakeFolder(const std::string& path) {
  if (const absl::Status status = Begin("make folder"); !status.ok()) return status;
  std::shared_ptr<Node> node = root_;
  for (const std::string& part : Parts(path)) {
    auto& child = node->now[part];
    if (!child) {
      child = std::make_shared<Node>();
      child->folder = true;
    }
    node = child;
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<NewFile>> FakeDisk::Create(const std::string& path) {
  if (const absl::Status status = Begin("create"); !status.ok()) return status;
  const auto parent = ParentOf(path);
  if (!parent) return absl::NotFoundError(path);
  if (parent->now.count(Name(path)) != 0) return absl::AlreadyExistsError(path);
  auto node = std::make_shared<Node>();
  parent->now[Name(path)] = node;
  return std::make_unique<File>(*this, node);
}

absl::Status FakeDisk::SyncFolder(const std::string& path) {
  if (const absl::Status status = Begin("sync folder"); !status.ok()) return status;
  const auto node = Find(path);
  if (!node) return absl::NotFoundError(path);
  node->disk = node->now;
  return absl::OkStatus();
}

absl::Status FakeDisk::Rename(const std::string& from, const std::string& to) {
  if (const absl::Status status = Begin("rename"); !status.ok()) return status;
  const auto node = Find(from);
  if (!node) return absl::NotFoundError(from);
  if (Find(to)) return absl::AlreadyExistsError(to);
  ParentOf(from)->now.erase(Name(from));
  ParentOf(to)->now[Name(to)] = node;
  return absl::OkStatus();
}

absl::Status FakeDisk::Exchange(const std::string& one, const std::string& other) {
  if (!exchanges) return absl::UnimplementedError("exchange");
  if (const absl::Status status = Begin("exchange"); !status.ok()) return status;
  if (!Find(one) || !Find(other)) return absl::NotFoundError(Find(one) ? other : one);
  std::swap(ParentOf(one)->now[Name(one)], ParentOf(other)->now[Name(other)]);
  return absl::OkStatus();
}

absl::Status FakeDisk::Remove(const std::string& path) {
  if (const absl::Status status = Begin("remove"); !status.ok()) return status;
  if (Find(path)) ParentOf(path)->now.erase(Name(path));
  return absl::OkStatus();
}

absl::StatusOr<std::string> FakeDisk::Read(const std::string& path) {
  if (const auto why = refused.find(path); why != refused.end()) return why->second;
  const auto node = Find(path);
  if (!node || node->folder) return absl::NotFoundError(path);
  return node->bytes;
}

absl::StatusOr<std::vector<std::string>> FakeDisk::List(const std::string& folder) {
  std::vector<std::string> names;
  if (const auto node = Find(folder)) {
    for (const auto& entry : node->now) names.push_back(entry.first);
  }
  return names;
}

bool FakeDisk::Exists(const std::string& path) { return Find(path) != nullptr; }

absl::StatusOr<int64_t> FakeDisk::FreeBytes(const std::string&) { return free_bytes; }

}  // namespace mtrun::checkpoints
