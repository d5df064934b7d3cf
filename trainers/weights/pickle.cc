#include "trainers/weights/pickle.h"

#include <cstring>
#include <unordered_map>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/status_macros.h"

namespace mtrun::trainers {
namespace {

using Kind = PickleValue::Kind;

/// Limits memory. A state dict of a thousand tensors has about 30,000 values, so it is enough for any model.
constexpr size_t kMaxValues = 1 << 21;

/// Opcodes of Python's Lib/pickle.py, protocols 2 to 5, and those of lower protocols that Python 2 writes
/// there (large numbers as text, objects of old-style classes).
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
  kIntText = 'I',
  kLongText = 'L',
  kLong1 = 0x8a,
  kLong4 = 0x8b,
  kReal = 'G',
  kUnicode = 'X',
  kShortUnicode = 0x8c,
  kLongUnicode = 0x8d,
  kShortString = 'U',
  kString4 = 'T',
  kShortBytes = 'C',
  kBytes = 'B',
  kLongBytes = 0x8e,
  kByteArray = 0x96,
  kEmptyTuple = ')',
  kTuple = 't',
  kTuple1 = 0x85,
  kTuple2 = 0x86,
  kTuple3 = 0x87,
  kEmptyList = ']',
  kAppend = 'a',
  kAppends = 'e',
  kEmptySet = 0x8f,
  kAddItems = 0x90,
  kFrozenSet = 0x91,
  kEmptyDict = '}',
  kSetItem = 's',
  kSetItems = 'u',
  kGlobal = 'c',
  kStackGlobal = 0x93,
  kReduce = 'R',
  kNewObject = 0x81,
  kNewObjectNamed = 0x92,
  kOldObject = 'o',
  kBuild = 'b',
  kPersistentId = 'Q',
  kPut = 'q',
  kLongPut = 'r',
  kGet = 'h',
  kLongGet = 'j',
  kMemoize = 0x94,
};

/// The stack machine. If a step finds the bytes broken, it sets `error_` and parsing ends.
class Parser {
 public:
  explicit Parser(absl::string_view bytes) : bytes_(bytes) {}

  absl::StatusOr<Pickle> Run() {
    while (error_.ok() && out_.root == nullptr) {
      if (out_.values.size() > kMaxValues) Fail("too many values");
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
      Fail("it is truncated");
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
      Fail("an unterminated name");
      return {};
    }
    const absl::string_view line = bytes_.substr(at_, end - at_);
    at_ = end + 1;
    return line;
  }

  // Stack. The parser can modify values, because it made them and none leaves it before the end.
  PickleValue* New(Kind kind) {
    out_.values.emplace_back().kind = kind;
    return &out_.values.back();
  }
  PickleValue* Push(Kind kind) {
    stack_.push_back(New(kind));
    return stack_.back();
  }
  /// Pops a value, but never one below the last mark.
  PickleValue* Pop() {
    const size_t floor = marks_.empty() ? 0 : marks_.back();
    if (stack_.size() <= floor) {
      Fail("the stack is empty");
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
      Fail("a mark is missing");
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
  /// Reads "12" and "12L"; the texts of Python 2's bools are "00" and "01".
  void PushIntText(absl::string_view line) {
    if (line == "00" || line == "01") return PushInt(line == "01" ? 1 : 0, Kind::kBool);
    absl::ConsumeSuffix(&line, "L");
    int64_t value = 0;
    if (!absl::SimpleAtoi(line, &value)) return Fail("a number that is not one, or has more than 64 bits");
    PushInt(value);
  }
  void PushGlobal(absl::string_view module, absl::string_view name) {
    Push(Kind::kGlobal)->text = absl::StrCat(module, ".", name);
  }
  void PushStackGlobal() {
    const PickleValue *name = Pop(), *module = Pop();
    if (name->kind != Kind::kString || module->kind != Kind::kString)
      return Fail("a name that is not a string");
    PushGlobal(module->text, name->text);
  }
  void PushCall() {
    const PickleValue *argument = Pop(), *callee = Pop();
    if (argument->kind != Kind::kTuple) return Fail("a call without arguments");
    MakeCall(callee, argument);
  }
  void MakeCall(const PickleValue* callee, const PickleValue* argument) {
    const bool named =
        callee->kind == Kind::kGlobal || callee->kind == Kind::kCall || callee->kind == Kind::kPersistent;
    if (!named) return Fail("a call of something unnamed");
    PickleValue* call = Push(Kind::kCall);
    call->callee = callee;
    call->argument = argument;
  }
  void PushOldObject() {
    std::vector<const PickleValue*> items = PopToMark();
    if (items.empty()) return Fail("an object without a class");
    PickleValue* argument = New(Kind::kTuple);
    argument->items.assign(items.begin() + 1, items.end());
    MakeCall(items.front(), argument);
  }
  void AddPairs(std::vector<const PickleValue*> items) {
    PickleValue* to = Top();
    const bool fits = (to->kind == Kind::kDict || to->kind == Kind::kCall) && items.size() % 2 == 0;
    if (!fits) return Fail("entries for something that is not a container");
    to->items.insert(to->items.end(), items.begin(), items.end());
  }
  /// The items of an object are ignored: they are not entries.
  void AddItems(const std::vector<const PickleValue*>& items) {
    PickleValue* to = Top();
    if (to->kind == Kind::kCall) return;
    if (to->kind != Kind::kList) return Fail("entries for something that is not a container");
    to->items.insert(to->items.end(), items.begin(), items.end());
  }
  std::vector<const PickleValue*> PopPair() {
    const PickleValue *value = Pop(), *key = Pop();
    return {key, value};
  }
  void Recall(uint64_t index) {
    const auto found = memo_.find(index);
    if (found == memo_.end()) return Fail("it refers to a value that does not exist");
    stack_.push_back(found->second);
  }
  void Stop() {
    const PickleValue* root = Pop();
    if (!stack_.empty()) Fail("values are left over");
    if (error_.ok()) out_.root = root;
  }

  // NOLINTNEXTLINE(readability-function-size): one switch over the opcodes
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
      case kIntText:
      case kLongText:
        return PushIntText(Line());
      case kLong1:
        return PushLong(Take(Byte()));
      case kLong4:
        return PushLong(Take(Number<uint32_t>()));
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
      case kLongUnicode:
      case kLongBytes:
      case kByteArray:
        return PushText(Take(Number<uint64_t>()));
      case kEmptyTuple:
        return PushTuple({});
      case kTuple:
      case kFrozenSet:
        return PushTuple(PopToMark());
      case kTuple1:
        return PushTupleOf(1);
      case kTuple2:
        return PushTupleOf(2);
      case kTuple3:
        return PushTupleOf(3);
      case kEmptyList:
      case kEmptySet:
        Push(Kind::kList);
        return;
      case kAppend:
        return AddItems({Pop()});
      case kAppends:
      case kAddItems:
        return AddItems(PopToMark());
      case kEmptyDict:
        Push(Kind::kDict);
        return;
      case kSetItem:
        return AddPairs(PopPair());
      case kSetItems:
        return AddPairs(PopToMark());
      case kGlobal: {
        const absl::string_view module = Line();
        return PushGlobal(module, Line());
      }
      case kStackGlobal:
        return PushStackGlobal();
      case kReduce:
      case kNewObject:
        return PushCall();
      case kNewObjectNamed:
        Pop();  // ignored: arguments by name
        return PushCall();
      case kOldObject:
        return PushOldObject();
      case kBuild:
        Pop();
        Top();
        return;  // ignored: attributes of an object, such as a state dict's _metadata
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
        return Fail(absl::StrCat("opcode 0x", absl::Hex(opcode), " is not allowed in a file of weights"));
    }
  }

  const absl::string_view bytes_;
  uint64_t at_ = 0, opcode_at_ = 0;
  absl::Status error_;
  Pickle out_;
  std::vector<PickleValue*> stack_;
  std::vector<size_t> marks_;
  std::unordered_map<uint64_t, PickleValue*> memo_;
  PickleValue nothing_;  // placeholder after an error
};

}  // namespace

absl::StatusOr<Pickle> ParsePickle(absl::string_view bytes) { return Parser(bytes).Run(); }

}  // namespace mtrun::trainers
