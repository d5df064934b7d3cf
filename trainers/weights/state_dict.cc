#include "trainers/weights/state_dict.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "base/utf8.h"

namespace mtrun::trainers {
namespace {

using datasets::DType;
using Kind = PickleValue::Kind;
using Values = std::vector<const PickleValue*>;

constexpr char kOrderedDict[] = "collections.OrderedDict",
               kSubclass[] = "torch._tensor._rebuild_from_type_v2";
constexpr char kNewTensor[] = "torch._utils._rebuild_tensor_v3",
               kTensor[] = "torch._utils._rebuild_tensor_v2", kOldTensor[] = "torch._utils._rebuild_tensor";
constexpr char kNotData[] = ", which is code, not data";

/// Calls whose first argument is the tensor itself.
const std::set<std::string>& Wrappers() {
  static const std::set<std::string> names{
      "torch._utils._rebuild_parameter", "torch._utils._rebuild_parameter_with_state",
      "torch._utils._rebuild_device_tensor_from_cpu_tensor", "torch.nn.parameter.Parameter"};
  return names;
}

/// Kinds of tensors that a network's weights cannot be, and what to do about it.
const std::map<std::string, std::string>& OtherTensors() {
  static const std::map<std::string, std::string> kinds{
      {"torch._utils._rebuild_sparse_tensor", "a sparse tensor: save tensor.to_dense()"},
      {"torch._utils._rebuild_sparse_csr_tensor", "a sparse tensor: save tensor.to_dense()"},
      {"torch._utils._rebuild_qtensor", "a quantised tensor: save tensor.dequantize()"},
      {"torch._utils._rebuild_nested_tensor", "a nested tensor"},
      {"torch._utils._rebuild_meta_tensor_no_storage", "a tensor of the meta device, which has no values"}};
  return kinds;
}

/// Types of storages. If an element has more than one number, there is no type.
const std::map<std::string, Storage>& StorageTypes() {
  static const std::map<std::string, Storage> types = [] {
    std::map<std::string, Storage> all;
    const std::pair<const char*, DType> plain[] = {
        {"Float", DType::kF32},     {"Double", DType::kF64}, {"Half", DType::kF16},  {"Long", DType::kI64},
        {"BFloat16", DType::kBF16}, {"Int", DType::kI32},    {"Short", DType::kI16}, {"Char", DType::kI8},
        {"Byte", DType::kU8},       {"Bool", DType::kBool}};
    for (const auto& [name, type] : plain)
      all[absl::StrCat("torch.", name, "Storage")] = {.type = type, .element = datasets::DTypeSize(type)};
    const std::pair<const char*, int64_t> others[] = {
        {"torch.ComplexFloatStorage", 8}, {"torch.ComplexDoubleStorage", 16}, {"torch.QInt8Storage", 1},
        {"torch.QUInt8Storage", 1},       {"torch.QInt32Storage", 4},         {"torch.QUInt4x2Storage", 1},
        {"torch.QUInt2x4Storage", 1},     {"torch.storage.UntypedStorage", 1}};
    for (const auto& [name, bytes] : others) all[name] = {.type = std::nullopt, .element = bytes};
    return all;
  }();
  return types;
}

/// Types of tensors in storages without one.
const std::map<std::string, DType>& NewTypes() {
  static const std::map<std::string, DType> types{{"torch.float8_e4m3fn", DType::kF8E4M3},
                                                  {"torch.float8_e5m2", DType::kF8E5M2},
                                                  {"torch.float8_e4m3fnuz", DType::kF8E4M3Fnuz},
                                                  {"torch.float8_e5m2fnuz", DType::kF8E5M2Fnuz},
                                                  {"torch.uint64", DType::kU64},
                                                  {"torch.uint32", DType::kU32},
                                                  {"torch.uint16", DType::kU16}};
  return types;
}

/// Returns the name of what a value is or calls, or "".
std::string NameOf(const PickleValue& value) {
  constexpr int kMaxNesting = 8;  // values can contain themselves
  const PickleValue* at = &value;
  for (int i = 0; i < kMaxNesting; ++i) {
    if (at->kind == Kind::kGlobal) return AsPlainText(at->text);
    if (at->kind == Kind::kCall) {
      at = at->callee;
    } else if (at->kind == Kind::kPersistent &&
               at->argument->kind == Kind::kTuple) {  // a class, and its source
      const Values& items = at->argument->items;
      const auto named = std::find_if(items.begin(), items.end(),
                                      [](const PickleValue* item) { return item->kind == Kind::kGlobal; });
      if (named == items.end()) return "";
      at = *named;
    } else {
      return "";
    }
  }
  return "";
}

absl::Status NeedsCode(const std::string& name) {
  return absl::PermissionDeniedError(absl::StrCat("it needs ", name, kNotData));
}

struct Entry {
  const PickleValue* key;
  const PickleValue* value;
};

/// Returns whether a value is a dictionary, of any class.
bool IsDictionary(const PickleValue& value) {
  return value.kind == Kind::kDict ||
         (value.kind == Kind::kCall && (!value.items.empty() || NameOf(value) == kOrderedDict));
}

/// Returns the entries of a dictionary, or nothing for another value.
std::optional<std::vector<Entry>> EntriesOf(const PickleValue& value) {
  if (!IsDictionary(value)) return std::nullopt;
  std::vector<Entry> entries;
  if (value.kind == Kind::kCall && NameOf(value) == kOrderedDict &&
      !value.argument->items.empty()) {  // Python 2 writes a list of pairs
    for (const PickleValue* pair : value.argument->items.front()->items) {
      if (pair->items.size() != 2) return std::nullopt;
      entries.push_back({pair->items[0], pair->items[1]});
    }
  }
  for (size_t i = 0; i + 1 < value.items.size(); i += 2)
    entries.push_back({value.items[i], value.items[i + 1]});
  return entries;
}

/// Returns whether a value is a tensor of any kind, also of one that is refused.
bool IsTensor(const PickleValue& value) {
  if (value.kind == Kind::kPersistent) return true;
  const std::string name = value.kind == Kind::kCall ? NameOf(value) : "";
  return absl::StartsWith(name, "torch._utils._rebuild_") || name == kSubclass || Wrappers().count(name) > 0;
}

/// Returns whether the entries have names, at least one tensor, and no further dictionaries.
bool IsStateDict(const std::vector<Entry>& entries) {
  bool tensors = false;
  for (const Entry& entry : entries) {
    if (entry.key->kind != Kind::kString) return false;
    if (IsExtraState(entry.key->text)) continue;
    if (IsDictionary(*entry.value)) return false;
    tensors = tensors || IsTensor(*entry.value);
  }
  return tensors;
}

absl::Status NoStateDict(const std::vector<Entry>& entries) {
  constexpr size_t kMaxNamed = 8;
  std::vector<std::string> keys;
  bool code = false;
  for (const Entry& entry : entries) {
    if (keys.size() == kMaxNamed) break;
    const bool data = IsDictionary(*entry.value) || IsTensor(*entry.value);
    const std::string needs = data ? "" : NameOf(*entry.value);
    code = code || !needs.empty();
    keys.push_back(absl::StrCat(AsPlainText(entry.key->text), needs.empty() ? "" : " (", needs,
                                needs.empty() ? "" : absl::StrCat(kNotData, ")")));
  }
  return absl::Status(
      code ? absl::StatusCode::kPermissionDenied : absl::StatusCode::kInvalidArgument,
      absl::StrCat(
          "it contains no state dict, neither at the top nor as state_dict, model_state_dict, model or "
          "net: save model.state_dict(); its keys are ",
          absl::StrJoin(keys, ", ")));
}

absl::StatusOr<std::vector<Entry>> FindStateDict(const PickleValue& root) {
  const std::optional<std::vector<Entry>> top = EntriesOf(root);
  if (!top) {
    const std::string name = NameOf(root);
    if (name.empty())
      return absl::InvalidArgumentError("it contains no dictionary of tensors: save model.state_dict()");
    return absl::PermissionDeniedError(
        absl::StrCat("it is a ", name, kNotData, ": save model.state_dict() instead of the model"));
  }
  for (const char* key : {"state_dict", "model_state_dict", "model", "net"}) {
    const auto found =
        std::find_if(top->begin(), top->end(), [&](const Entry& entry) { return entry.key->text == key; });
    if (found == top->end()) continue;
    if (auto entries = EntriesOf(*found->value); entries && IsStateDict(*entries)) return *std::move(entries);
  }
  if (IsStateDict(*top)) return *top;
  return NoStateDict(*top);
}

std::optional<std::vector<int64_t>> ReadSizes(const PickleValue& value) {
  // torch.Size is a call with a tuple.
  const bool size = value.kind == Kind::kCall && value.argument->items.size() == 1;
  const PickleValue& tuple = size ? *value.argument->items.front() : value;
  if (tuple.kind != Kind::kTuple) return std::nullopt;
  std::vector<int64_t> sizes;
  for (const PickleValue* item : tuple.items) {
    if (item->kind != Kind::kInt || !item->text.empty() || item->integer < 0) return std::nullopt;
    sizes.push_back(item->integer);
  }
  return sizes;
}

/// A call that makes a tensor, without what is around it.
struct TensorCall {
  std::string name;
  const Values* arguments;
  const PickleValue& At(size_t i) const { return *(*arguments)[i]; }
  bool Has(size_t count) const { return arguments->size() >= count; }
};

/// Unwraps a parameter, a buffer, or a tensor with attributes.
absl::StatusOr<TensorCall> Unwrap(const PickleValue& value) {
  constexpr int kMaxWrappers = 8;
  static const std::set<std::string> plain{"torch.Tensor", "torch.nn.parameter.Parameter",
                                           "torch.nn.parameter.Buffer"};
  TensorCall call{NameOf(value), value.kind == Kind::kCall ? &value.argument->items : nullptr};
  for (int i = 0; i < kMaxWrappers && call.arguments != nullptr; ++i) {
    if (Wrappers().count(call.name) > 0) {
      if (!call.Has(1)) return BrokenLayout("a parameter without a tensor");
      const PickleValue& inner = call.At(0);
      call = {NameOf(inner), inner.kind == Kind::kCall ? &inner.argument->items : nullptr};
    } else if (call.name == kSubclass) {  // (call, class, arguments, attributes)
      if (!call.Has(3)) return BrokenLayout("a tensor with an invalid shape");
      if (plain.count(NameOf(call.At(1))) == 0) return NeedsCode(NameOf(call.At(1)));
      call = {NameOf(call.At(0)), &call.At(2).items};
    } else {
      return call;
    }
  }
  return BrokenLayout("a parameter without a tensor");
}

/// Returns whether the tensor's flags ({"neg": True}) are set.
absl::StatusOr<bool> IsNegative(const TensorCall& call, size_t at) {
  if (!call.Has(at + 1) || call.At(at).kind == Kind::kNone) return false;
  if (call.At(at).kind != Kind::kDict) return BrokenLayout("a tensor with flags in an unknown form");
  bool negative = false;
  for (size_t i = 0; i + 1 < call.At(at).items.size(); i += 2) {
    const PickleValue &name = *call.At(at).items[i], &value = *call.At(at).items[i + 1];
    if (value.kind == Kind::kBool && value.integer == 0) continue;
    if (name.text != "neg" || value.kind != Kind::kBool)
      return absl::InvalidArgumentError(absl::StrCat("a tensor with the flag ", AsPlainText(name.text)));
    negative = true;
  }
  return negative;
}

class TensorReader {
 public:
  /// `most_bytes`: limit for all tensors together, because those that share a storage or repeat its elements
  /// could fill any memory.
  TensorReader(const PersistentSource& source, uint64_t most_bytes)
      : source_(source), bytes_left_(most_bytes) {}

  absl::StatusOr<StoredTensor> Read(const PickleValue& value) {
    absl::StatusOr<StoredTensor> tensor =
        value.kind == Kind::kPersistent ? source_.Tensor(*value.argument) : ReadCall(value);
    if (!tensor.ok()) return tensor;
    const uint64_t element = tensor->element_size();
    if (static_cast<uint64_t>(tensor->numel) > bytes_left_ / element)
      return BrokenLayout("the tensors share too much memory");
    bytes_left_ -= static_cast<uint64_t>(tensor->numel) * element;
    return tensor;
  }

 private:
  absl::StatusOr<StoredTensor> ReadCall(const PickleValue& value) {
    MT_ASSIGN_OR_RETURN(const TensorCall call, Unwrap(value));
    const auto other = OtherTensors().find(call.name);
    if (other != OtherTensors().end()) return absl::InvalidArgumentError(other->second);
    const bool typed = call.name == kNewTensor;  // with its own type, before the flags
    if (!typed && call.name != kTensor && call.name != kOldTensor) return NeedsCode(call.name);
    if (!call.Has(typed ? 7 : 4)) return BrokenLayout("a tensor with an invalid shape");
    MT_ASSIGN_OR_RETURN(Storage storage, ReadStorage(call.At(0)));
    MT_ASSIGN_OR_RETURN(const absl::string_view bytes, BytesOf(storage));
    if (typed) {
      const auto type = NewTypes().find(NameOf(call.At(6)));
      if (type == NewTypes().end())
        return absl::InvalidArgumentError(absl::StrCat("a tensor of ", NameOf(call.At(6))));
      storage.type = type->second;
      storage.numel = storage.numel * storage.element / datasets::DTypeSize(type->second);
    }
    if (!storage.type)
      return absl::InvalidArgumentError(storage.element >= 8 ? "a tensor of complex numbers"
                                                             : "a tensor of an unknown type");
    const auto sizes = ReadSizes(call.At(2)), strides = ReadSizes(call.At(3));
    if (!sizes || !strides || call.At(1).kind != Kind::kInt)
      return BrokenLayout("a tensor with an invalid shape");
    MT_ASSIGN_OR_RETURN(StoredTensor tensor, PlaceTensor({*sizes, *strides, call.At(1).integer},
                                                         *storage.type, storage.numel, bytes));
    MT_ASSIGN_OR_RETURN(tensor.negative, IsNegative(call, typed ? 7 : 6));
    return tensor;
  }

  absl::StatusOr<absl::string_view> BytesOf(const Storage& storage) const {
    MT_ASSIGN_OR_RETURN(const absl::string_view bytes, source_.Bytes(storage));
    const auto element = static_cast<uint64_t>(storage.element);
    if (bytes.size() / element == static_cast<uint64_t>(storage.numel) && bytes.size() % element == 0)
      return bytes;
    return BrokenLayout(absl::StrCat("storage ", AsPlainText(storage.key), " has ", bytes.size(),
                                     " bytes instead of ", storage.numel, " x ", element));
  }

  const PersistentSource& source_;
  uint64_t bytes_left_;
};

}  // namespace

bool IsExtraState(const std::string& name) {
  return name == "_extra_state" || absl::EndsWith(name, "._extra_state");
}

bool NamesObject(const PickleValue& persistent) {
  const PickleValue& id = *persistent.argument;
  return id.kind != Kind::kTuple || id.items.empty() || id.items[0]->text != "storage";
}

absl::StatusOr<Storage> StorageOfType(const std::string& global) {
  const auto type = StorageTypes().find(global);
  if (type != StorageTypes().end()) return type->second;
  return BrokenLayout(absl::StrCat(AsPlainText(global), " is not a type of storage"));
}

absl::StatusOr<Storage> ReadStorage(const PickleValue& value) {
  if (value.kind != Kind::kPersistent || NamesObject(value)) return BrokenLayout("a tensor without storage");
  const Values& id = value.argument->items;
  const bool fits = id.size() >= 5 && id[1]->kind == Kind::kGlobal && id[2]->kind == Kind::kString &&
                    id[4]->kind == Kind::kInt && id[4]->integer >= 0;
  if (!fits || (id.size() > 5 && id[5]->kind != Kind::kNone))
    return BrokenLayout("a storage in an unknown form");
  MT_ASSIGN_OR_RETURN(Storage storage, StorageOfType(id[1]->text));
  storage.key = id[2]->text;
  storage.numel = id[4]->integer;
  return storage;
}

absl::StatusOr<StoredTensor> PersistentSource::Tensor(const PickleValue&) const {
  return absl::InvalidArgumentError("a storage, not a tensor");
}

absl::StatusOr<std::vector<StoredTensor>> ReadStateDict(const PickleValue& root,
                                                        const PersistentSource& source, uint64_t file_size) {
  constexpr uint64_t kMaxShared = 8, kMaxExpanded = 256 << 20;
  MT_ASSIGN_OR_RETURN(const std::vector<Entry> entries, FindStateDict(root));
  TensorReader reader(source, kMaxShared * file_size + kMaxExpanded);
  std::vector<StoredTensor> tensors;
  std::set<absl::string_view> names;
  for (const Entry& entry : entries) {
    const std::string& name = entry.key->text;
    const bool plain = entry.value->kind != Kind::kCall && entry.value->kind != Kind::kPersistent;
    if (plain || IsExtraState(name)) continue;
    MT_ASSIGN_OR_RETURN(StoredTensor tensor, Annotate(reader.Read(*entry.value), AsPlainText(name)));
    tensor.name = name;
    if (!names.insert(name).second)
      return BrokenLayout(absl::StrCat("two tensors named ", AsPlainText(name)));
    tensors.push_back(std::move(tensor));
  }
  return tensors;
}

}  // namespace mtrun::trainers
