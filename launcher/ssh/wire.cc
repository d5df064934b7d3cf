#include "launcher/ssh/wire.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/status_macros.h"
#include "base/string_view.h"

namespace mtrun::launcher {
namespace {

constexpr char kGreeting[] = "mtrun-over-ssh-2 ", kAnyGreeting[] = "mtrun-over-ssh-";
constexpr std::string_view kEnd("\0mtrun ended ", 13);  // the nonce and the status follow
constexpr size_t kStatusDigits = 3, kMaxLine = 64, kMaxGreeting = 4096;

absl::Status Malformed() { return absl::InvalidArgumentError("malformed start command received over ssh"); }

/// Reads the texts of a payload in order, each with its length: "5:hello".
class TextReader {
 public:
  explicit TextReader(std::string_view payload) : rest_(payload) {}

  /// Returns "" if the text is missing or malformed, and from then on.
  std::string Text() {
    const size_t colon = good_ ? rest_.find(':') : std::string_view::npos;
    size_t size = 0;
    good_ = colon != std::string_view::npos && absl::SimpleAtoi(View(rest_.substr(0, colon)), &size) &&
            size <= rest_.size() - colon - 1 && !absl::StrContains(View(rest_.substr(colon + 1, size)), '\0');
    if (!good_) return "";
    std::string text(rest_.substr(colon + 1, size));
    rest_.remove_prefix(colon + 1 + size);
    return text;
  }
  /// Reads the number of entries that follow.
  size_t Count() {
    size_t count = 0;
    good_ = absl::SimpleAtoi(Text(), &count);
    return count;
  }
  bool good() const { return good_; }
  absl::Status Finish() const { return good_ && rest_.empty() ? absl::OkStatus() : Malformed(); }

 private:
  std::string_view rest_;
  bool good_ = true;
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
  if (digits.size() > kStatusDigits || !std::ranges::all_of(digits, is_digit)) return EndMark::kNone;
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
  std::vector<std::string> texts = {order.token, order.nonce, order.folder,
                                    absl::StrCat(order.environment.size())};
  for (const auto& [name, value] : order.environment) texts.insert(texts.end(), {name, value});
  texts.push_back(absl::StrCat(order.args.size()));
  texts.insert(texts.end(), order.args.begin(), order.args.end());
  texts.push_back(absl::StrCat(order.settings.size()));
  for (const auto& [name, value, source] : order.settings) texts.insert(texts.end(), {name, value, source});
  std::string payload;  // each text with its length: "5:hello"
  for (const std::string& text : texts) absl::StrAppend(&payload, text.size(), ":", text);
  return absl::StrCat("order ", payload.size(), "\n", payload);
}

std::string EncodeSignal(int signal) { return absl::StrCat("signal ", signal, "\n"); }
std::string EncodeBeat() { return "\n"; }
std::string EncodeEnd(int status, std::string_view nonce) {
  return absl::StrCat(BeginOfEnd(nonce), status, "\n");
}

absl::StatusOr<Order> DecodeOrder(std::string_view payload) {
  TextReader reader(payload);
  Order order;
  order.token = reader.Text();
  order.nonce = reader.Text();
  order.folder = reader.Text();
  for (size_t left = reader.Count(); left > 0 && reader.good(); --left) {
    std::string name = reader.Text();
    order.environment.insert_or_assign(std::move(name), reader.Text());
  }
  for (size_t left = reader.Count(); left > 0 && reader.good(); --left) order.args.push_back(reader.Text());
  for (size_t left = reader.Count(); left > 0 && reader.good(); --left) {
    // Initializers are evaluated in their order.
    order.settings.push_back({.name = reader.Text(), .value = reader.Text(), .source = reader.Text()});
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
