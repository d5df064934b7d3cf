#include "launcher/ssh/wire.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/status_macros.h"
#include "base/string_view.h"

namespace mtrun::launcher {
namespace {

constexpr char kGreeting[] = "mtrun-over-ssh-2 ", kAnyGreeting[] = "mtrun-over-ssh-";
constexpr std::string_view kEnd("\0mtrun ended ", 13);  // the nonce and the status follow
constexpr size_t kStatusDigits = 3, kMaxLine = 64, kMaxGreeting = 4096;

absl::Status Malformed() { return absl::InvalidArgumentError("malformed start command received over ssh"); }

/// Appends the text with its length: "5:hello".
void AddText(std::string_view text, std::string* payload) {
  absl::StrAppend(payload, text.size(), ":", View(text));
}

absl::StatusOr<std::vector<std::string>> SplitTexts(std::string_view payload) {
  std::vector<std::string> texts;
  while (!payload.empty()) {
    const size_t colon = payload.find(':');
    size_t size = 0;
    if (colon == std::string_view::npos || !absl::SimpleAtoi(View(payload.substr(0, colon)), &size) ||
        size > payload.size() - colon - 1)
      return Malformed();
    texts.emplace_back(payload.substr(colon + 1, size));
    if (absl::StrContains(texts.back(), '\0')) return Malformed();
    payload.remove_prefix(colon + 1 + size);
  }
  return texts;
}

/// Reads the texts in order; a missing one sets `status_`.
class TextReader {
 public:
  explicit TextReader(std::vector<std::string> texts) : texts_(std::move(texts)) {}

  std::string Text() {
    if (next_ == texts_.size()) status_ = Malformed();
    return status_.ok() ? texts_[next_++] : "";
  }
  /// Reads the number of texts that follow.
  size_t Count() {
    size_t count = 0;
    if (!absl::SimpleAtoi(Text(), &count) || count > texts_.size() - next_) status_ = Malformed();
    return status_.ok() ? count : 0;
  }
  absl::Status Finish() const { return next_ == texts_.size() ? status_ : Malformed(); }

 private:
  const std::vector<std::string> texts_;
  size_t next_ = 0;
  absl::Status status_;
};

/// Encodes a text as one word of a line.
std::string Word(const std::string& text) { return text.empty() ? "-" : text; }
std::string FromWord(absl::string_view word) { return word == "-" ? "" : std::string(word); }

std::string BeginOfEnd(std::string_view nonce) { return absl::StrCat(View(kEnd), View(nonce), " "); }

enum class EndMark { kNone, kBegun, kWhole };

/// Returns whether `text` begins with EncodeEnd's result or a part of it. `mark`: BeginOfEnd.
EndMark ReadEnd(std::string_view text, std::string_view mark, std::optional<int>* status) {
  const std::string_view begun = text.substr(0, mark.size());
  if (begun != mark.substr(0, begun.size())) return EndMark::kNone;
  const size_t end = std::min(text.find('\n'), text.size());
  const std::string_view digits = text.substr(begun.size(), end - begun.size());
  const auto is_digit = [](unsigned char c) { return absl::ascii_isdigit(c); };
  if (digits.size() > kStatusDigits || !std::all_of(digits.begin(), digits.end(), is_digit))
    return EndMark::kNone;
  if (end == text.size()) return EndMark::kBegun;
  if (digits.empty()) return EndMark::kNone;
  int number = 0;
  *status = absl::SimpleAtoi(View(digits), &number) ? number : 0;
  return EndMark::kWhole;
}

}  // namespace

std::string Encode(const Greeting& greeting) {
  // Begins a line even if the shell's output has not ended one.
  return absl::StrCat("\n", kGreeting, Word(greeting.version), " ", Word(greeting.host), " ",
                      Word(greeting.address), "\n");
}

std::string Encode(const Order& order) {
  std::string payload;
  const auto add_count = [&](size_t count) { AddText(absl::StrCat(count), &payload); };
  AddText(order.token, &payload);
  AddText(order.nonce, &payload);
  AddText(order.folder, &payload);
  add_count(order.environment.size());
  for (const auto& [name, value] : order.environment) {
    AddText(name, &payload);
    AddText(value, &payload);
  }
  add_count(order.args.size());
  for (const std::string& arg : order.args) AddText(arg, &payload);
  add_count(order.settings.size());
  for (const DerivedSetting& setting : order.settings) {
    for (const std::string* text : {&setting.name, &setting.value, &setting.source}) AddText(*text, &payload);
  }
  return absl::StrCat("order ", payload.size(), "\n", payload);
}

std::string EncodeSignal(int signal) { return absl::StrCat("signal ", signal, "\n"); }
std::string EncodeBeat() { return "\n"; }
std::string EncodeEnd(int status, std::string_view nonce) {
  return absl::StrCat(BeginOfEnd(nonce), status, "\n");
}

absl::StatusOr<Order> DecodeOrder(std::string_view payload) {
  MT_ASSIGN_OR_RETURN(std::vector<std::string> texts, SplitTexts(payload));
  TextReader reader(std::move(texts));
  Order order;
  order.token = reader.Text();
  order.nonce = reader.Text();
  order.folder = reader.Text();
  for (size_t left = reader.Count(); left > 0; --left) {
    std::string name = reader.Text();
    order.environment.insert_or_assign(std::move(name), reader.Text());
  }
  for (size_t left = reader.Count(); left > 0; --left) order.args.push_back(reader.Text());
  for (size_t left = reader.Count(); left > 0; --left) {
    DerivedSetting setting;
    for (std::string* text : {&setting.name, &setting.value, &setting.source}) *text = reader.Text();
    order.settings.push_back(std::move(setting));
  }
  MT_RETURN_IF_ERROR(reader.Finish());
  return order;
}

absl::StatusOr<std::optional<HostInput::Message>> HostInput::Next() {
  const size_t end = pending_.find('\n');
  if (end > kMaxLine && pending_.size() > kMaxLine) return Malformed();
  if (end == std::string::npos) return std::nullopt;
  const absl::string_view line = absl::string_view(pending_).substr(0, end);
  const std::pair<absl::string_view, absl::string_view> parts = absl::StrSplit(line, absl::MaxSplits(' ', 1));
  Signal signal;
  size_t size = 0;
  if (line.empty()) {
    pending_.erase(0, end + 1);
    return Message(Beat());
  }
  if (parts.first == "signal" && absl::SimpleAtoi(parts.second, &signal.number) && signal.number > 0) {
    pending_.erase(0, end + 1);
    return Message(signal);
  }
  if (parts.first != "order" || !absl::SimpleAtoi(parts.second, &size) || size > kMaxOrderBytes)
    return Malformed();
  if (pending_.size() - end - 1 < size) return std::nullopt;
  MT_ASSIGN_OR_RETURN(Order order, DecodeOrder(std::string_view(pending_).substr(end + 1, size)));
  pending_.erase(0, end + 1 + size);
  return Message(std::move(order));
}

HostOutput::HostOutput(std::string nonce) : nonce_(std::move(nonce)), end_(BeginOfEnd(nonce_)) {}

std::optional<Greeting> HostOutput::TakeGreeting() {
  size_t at = 0;
  for (size_t end; (end = pending_.find('\n', at)) != std::string::npos;) {
    const std::string line = pending_.substr(at, end - at);
    at = end + 1;
    const std::vector<absl::string_view> words = absl::StrSplit(line, ' ');
    if (!absl::StartsWith(line, kAnyGreeting) || words.size() != 4) continue;
    greeted_ = true;
    Greeting greeting{FromWord(words[1]), FromWord(words[2]), FromWord(words[3])};
    if (!absl::StartsWith(line, kGreeting))  // it cannot read these orders
      greeting.version += " (an earlier or later one)";
    pending_.erase(0, at);
    return greeting;
  }
  pending_.erase(0, at);
  // If a line is longer, keep a suffix that cannot be mistaken for the beginning of a greeting.
  if (pending_.size() > kMaxGreeting) pending_.replace(0, pending_.size() - kMaxGreeting, " ");
  return std::nullopt;
}

void HostOutput::TakeOutput(Piece* piece) {
  // Erases consumed bytes once rather than at each zero byte.
  size_t at = 0;
  while (at < pending_.size()) {
    const size_t mark = std::min(pending_.find('\0', at), pending_.size());
    piece->output.append(pending_, at, mark - at);
    at = mark;
    if (at == pending_.size()) break;
    const EndMark found = ReadEnd(std::string_view(pending_).substr(at), end_, &piece->end_status);
    if (found == EndMark::kWhole) at = pending_.size();
    if (found != EndMark::kNone) break;
    piece->output += '\0';
    ++at;
  }
  pending_.erase(0, at);
}

HostOutput::Piece HostOutput::Feed(std::string_view bytes) {
  Piece piece;
  pending_ += bytes;
  if (!greeted_) piece.greeting = TakeGreeting();
  if (greeted_) TakeOutput(&piece);
  return piece;
}

std::string HostOutput::Flush() { return greeted_ ? std::exchange(pending_, {}) : ""; }

}  // namespace mtrun::launcher
