#include "trainers/weights/pickle.h"

#include <cstring>
#include <unordered_map>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace mtrun::trainers {
namespace {

using Kind = PickleValue::Kind;

/// A state dict of a thousand tensors has about 30,000 values: enough for any model, and a bound on memory.
constexpr size_t kMostValues = 1 << 21;

/// Python's Lib/pickle.py, protocols 2 to 5, without what only objects with code of their own need.
enum Opcode : uint8_t {
  kProto = 0x80,
  kFrame = 0x95,
  kMark = '(',
  kStop = '.',
  kPop = '0',
  kPopMark = '1',
  kNone = 'N',
  kTrue = 0x88,
  kFalse = 0x89,
  kInt4 = 'J',
  kInt1 = 'K',
  kInt2 = 'M',
  kLong1 = 0x8a,
  kReal = 'G',
  kUnicode = 'X',
  kShortUnicode = 0x8c,
  kShortString = 'U',
  kString4 = 'T',
  kShortBytes = 'C',
  kBytes = 'B',
  kEmptyTuple = ')',
  kTuple = 't',
  kTuple1 = 0x85,
  kTuple2 = 0x86,
  kTuple3 = 0x87,
  kEmptyList = ']',
  kAppend = 'a',
  kAppends = 'e',
  kEmptyDict = '}',
  kSetItem = 's',
  kSetItems = 'u',
  kGlobal = 'c',
  kStackGlobal = 0x93,
  kReduce = 'R',
  kNewObject = 0x81,
  kBuild = 'b',
  kPersistentId = 'Q',
  kPut = 'q',
  kLongPut = 'r',
  kGet = 'h',
  kLongGet = 'j',
  kMemoize = 0x94,
};

/// The stack machine. A step that finds the bytes broken sets `error_` and the parse ends.
class Parser {
 public:
  Parser(absl::string_view bytes, const std::set<std::string>& allowed) : bytes_(bytes), allowed_(allowed) {}

  absl::StatusOr<Pickle> Run() {
    while (error_.ok() && out_.root == nullptr) {
      if (out_.values.size() > kMostValues) Fail("more values than any model has");
      opcode_at_ = at_;
      const uint8_t opcode = Byte();
      if (error_.ok()) Step(opcode);
    }
    MT_RETURN_IF_ERROR(error_);
    out_.size = at_;
    return std::move(out_);
  }

 private:
  void Fail(absl::string_view what) {
    if (error_.ok())
      error_ = absl::DataLossError(absl::StrCat("broken pickle at byte ", opcode_at_, ": ", what));
  }

  // Bytes.
  absl::string_view Take(uint64_t size) {
    if (size > bytes_.size() - at_) {
      Fail("it ends in the middle");
      return {};
    }
    at_ += size;
    return bytes_.substr(at_ - size, size);
  }
  template <typename T>
  T Number() {
    T value = 0;
    if (const absl::string_view raw = Take(sizeof(T)); !raw.empty())
      std::memcpy(&value, raw.data(), sizeof(T));
    return value;
  }
  uint8_t Byte() { return Number<uint8_t>(); }
  absl::string_view Line() {
    const size_t end = bytes_.find('\n', at_);
    if (end == absl::string_view::npos) {
      Fail("a name without end");
      return {};
    }
    const absl::string_view line = bytes_.substr(at_, end - at_);
    at_ = end + 1;
    return line;
  }

  // Stack. Values are made by this parser, so giving out mutable pointers is its business; nothing leaves
  // before the end.
  PickleValue* New(Kind kind) {
    out_.values.emplace_back().kind = kind;
    return &out_.values.back();
  }
  PickleValue* Push(Kind kind) {
    stack_.push_back(New(kind));
    return stack_.back();
  }
  /// Never takes what lies under the last mark.
  PickleValue* Pop() {
    const size_t floor = marks_.empty() ? 0 : marks_.back();
    if (stack_.size() <= floor) {
      Fail("nothing to take from the stack");
      return &nothing_;
    }
    PickleValue* value = stack_.back();
    stack_.pop_back();
    return value;
  }
  PickleValue* Top() {
    PickleValue* value = Pop();
    if (error_.ok()) stack_.push_back(value);
    return value;
  }
  std::vector<const PickleValue*> PopToMark() {
    if (marks_.empty()) {
      Fail("no mark");
      return {};
    }
    std::vector<const PickleValue*> values(stack_.begin() + marks_.back(), stack_.end());
    stack_.resize(marks_.back());
    marks_.pop_back();
    return values;
  }

  // Making values.
  void PushText(absl::string_view text) { Push(Kind::kString)->text = std::string(text); }
  void PushInt(int64_t value, Kind kind = Kind::kInt) { Push(kind)->integer = value; }
  void PushLong(absl::string_view raw) {
    PickleValue* value = Push(Kind::kInt);
    if (raw.size() > sizeof(int64_t)) {
      value->text = std::string(raw);
    } else if (!raw.empty()) {
      const bool negative = (static_cast<uint8_t>(raw.back()) & 0x80) != 0;
      value->integer = negative ? -1 : 0;  // sign extension
      std::memcpy(&value->integer, raw.data(), raw.size());
    }
  }
  void PushReal() {
    uint64_t bits = __builtin_bswap64(Number<uint64_t>());
    std::memcpy(&Push(Kind::kFloat)->real, &bits, sizeof(bits));
  }
  void PushTuple(std::vector<const PickleValue*> items) { Push(Kind::kTuple)->items = std::move(items); }
  void PushTupleOf(int size) {
    std::vector<const PickleValue*> items(size);
    for (int i = size - 1; i >= 0; --i) items[i] = Pop();
    PushTuple(std::move(items));
  }
  void PushGlobal(const std::string& module, const std::string& name) {
    const std::string full = absl::StrCat(module, ".", name);
    if (allowed_.count(full) == 0) {
      if (error_.ok()) {
        error_ =
            absl::PermissionDeniedError(absl::StrCat("it refers to ", full,
                                                     ", which is code and not data; save model.state_dict() "
                                                     "instead of the model"));
      }
      return;
    }
    Push(Kind::kGlobal)->text = full;
  }
  void PushStackGlobal() {
    const PickleValue *name = Pop(), *module = Pop();
    if (name->kind != Kind::kString || module->kind != Kind::kString) return Fail("a name that is no text");
    PushGlobal(module->text, name->text);
  }
  void PushCall() {
    const PickleValue *argument = Pop(), *callee = Pop();
    if (callee->kind != Kind::kGlobal || argument->kind != Kind::kTuple)
      return Fail("a call of something without a name");
    PickleValue* call = Push(Kind::kCall);
    call->callee = callee;
    call->argument = argument;
  }
  void AddItems(std::vector<const PickleValue*> items, bool pairs) {
    PickleValue* to = Top();
    const bool fits = pairs ? (to->kind == Kind::kDict || to->kind == Kind::kCall) && items.size() % 2 == 0
                            : to->kind == Kind::kList;
    if (!fits) return Fail("entries for something that holds none");
    to->items.insert(to->items.end(), items.begin(), items.end());
  }
  std::vector<const PickleValue*> PopPair() {
    const PickleValue *value = Pop(), *key = Pop();
    return {key, value};
  }
  void Recall(uint64_t index) {
    const auto found = memo_.find(index);
    if (found == memo_.end()) return Fail("it refers to something that has not been there");
    stack_.push_back(found->second);
  }
  void Stop() {
    const PickleValue* root = Pop();
    if (!stack_.empty()) Fail("values are left over");
    if (error_.ok()) out_.root = root;
  }

  void Step(uint8_t opcode) {
    switch (opcode) {
      case kProto:
        Byte();
        return;
      case kFrame:
        Number<uint64_t>();
        return;
      case kMark:
        marks_.push_back(stack_.size());
        return;
      case kStop:
        return Stop();
      case kPop:
        Pop();
        return;
      case kPopMark:
        PopToMark();
        return;
      case kNone:
        Push(Kind::kNone);
        return;
      case kTrue:
        return PushInt(1, Kind::kBool);
      case kFalse:
        return PushInt(0, Kind::kBool);
      case kInt4:
        return PushInt(Number<int32_t>());
      case kInt2:
        return PushInt(Number<uint16_t>());
      case kInt1:
        return PushInt(Byte());
      case kLong1:
        return PushLong(Take(Byte()));
      case kReal:
        return PushReal();
      case kUnicode:
      case kString4:
      case kBytes:
        return PushText(Take(Number<uint32_t>()));
      case kShortUnicode:
      case kShortString:
      case kShortBytes:
        return PushText(Take(Byte()));
      case kEmptyTuple:
        return PushTuple({});
      case kTuple:
        return PushTuple(PopToMark());
      case kTuple1:
        return PushTupleOf(1);
      case kTuple2:
        return PushTupleOf(2);
      case kTuple3:
        return PushTupleOf(3);
      case kEmptyList:
        Push(Kind::kList);
        return;
      case kAppend:
        return AddItems({Pop()}, /*pairs=*/false);
      case kAppends:
        return AddItems(PopToMark(), /*pairs=*/false);
      case kEmptyDict:
        Push(Kind::kDict);
        return;
      case kSetItem:
        return AddItems(PopPair(), /*pairs=*/true);
      case kSetItems:
        return AddItems(PopToMark(), /*pairs=*/true);
      case kGlobal: {
        const std::string module(Line());
        return PushGlobal(module, std::string(Line()));
      }
      case kStackGlobal:
        return PushStackGlobal();
      case kReduce:
      case kNewObject:
        return PushCall();
      case kBuild:
        Pop();
        Top();
        return;  // attributes of an object, a state dict's _metadata for one: not data
      case kPersistentId: {
        const PickleValue* id = Pop();
        Push(Kind::kPersistent)->argument = id;
        return;
      }
      case kPut:
        memo_[Byte()] = Top();
        return;
      case kLongPut:
        memo_[Number<uint32_t>()] = Top();
        return;
      case kMemoize:
        memo_.emplace(memo_.size(), Top());
        return;
      case kGet:
        return Recall(Byte());
      case kLongGet:
        return Recall(Number<uint32_t>());
      default:
        return Fail(absl::StrCat("opcode 0x", absl::Hex(opcode), " has no place in a file of weights"));
    }
  }

  const absl::string_view bytes_;
  const std::set<std::string>& allowed_;
  uint64_t at_ = 0, opcode_at_ = 0;
  absl::Status error_;
  Pickle out_;
  std::vector<PickleValue*> stack_;
  std::vector<size_t> marks_;
  std::unordered_map<uint64_t, PickleValue*> memo_;
  PickleValue nothing_;  // stands in after an error
};

}  // namespace

absl::StatusOr<Pickle> ParsePickle(absl::string_view bytes, const std::set<std::string>& allowed) {
  return Parser(bytes, allowed).Run();
}

}  // namespace mtrun::trainers
