// Data from unauthenticated clients to a server of data sets, and from servers to their clients.
#include <string>

#include "datasets/cache/fetch_messages.h"
#include "datasets/packed/data_url.h"
#include "datasets/remote/fetch_rules.h"
#include "mtdata/set_table.h"
#include "tests/fuzz/fuzz_targets.h"
#include "tests/fuzz/invariant.h"
#include "web/byte_range.h"
#include "web/file_answer.h"
#include "web/static_path.h"

namespace mtrun::fuzz {
namespace {

constexpr int64_t kSize = 1000;

void ReadRange(std::string_view bytes) {
  for (const int64_t size : {int64_t{0}, int64_t{1}, kSize}) {
    const web::ByteRange range = web::SelectRange(bytes, size);
    MT_HOLDS(range.offset >= 0 && range.length >= 0 && range.offset + range.length <= size);
    MT_HOLDS(range.kind != web::ByteRange::Kind::kPart || range.length > 0);
  }
  const std::string header(bytes);
  const web::Response answer =
      web::AnswerFile({.headers = {{"range", header}, {"if-range", header}, {"if-none-match", header}}},
                      {.size = kSize}, "a/b");
  MT_HOLDS(web::CanBeSent(answer));
}

void ReadPath(std::string_view bytes) {
  const auto names = web::SplitPath(bytes);
  if (!names) return;
  for (const std::string& name : *names) {
    MT_HOLDS(!name.empty() && name.front() != '.' && name.find('/') == std::string::npos &&
             name.find('\0') == std::string::npos);
  }
  mtdata::IsFileOfSet(*names);
}

void ReadUrl(std::string_view bytes) {
  const auto url = datasets::ParseDataUrl(bytes);
  if (url.ok()) {
    const auto again = datasets::ParseDataUrl(datasets::ToText(*url));
    MT_HOLDS(again.ok() && *again == *url) << datasets::ToText(*url);
  }
  const datasets::DataUrl from{"https", "host", 443, "/set"};
  const datasets::Redirect redirect = datasets::JudgeRedirect(from, std::string(bytes), 0, false);
  MT_HOLDS(!redirect.follow || redirect.with_secrets);
}

void ReadMessage(std::string_view bytes) {
  const auto message = datasets::fetch::Decode(bytes);
  if (!message.ok()) return;
  std::string line = datasets::fetch::Encode(*message);
  MT_HOLDS(!line.empty() && line.find('\n') == line.size() - 1);
  line.pop_back();
  const auto again = datasets::fetch::Decode(line);
  MT_HOLDS(again.ok() && *again == *message) << line;
}

}  // namespace

void FuzzServing(std::string_view bytes) {
  if (bytes.empty()) return;
  const std::string_view rest = bytes.substr(1);
  switch (bytes[0]) {
    case 'r':
      return ReadRange(rest);
    case 'p':
      return ReadPath(rest);
    case 'u':
      return ReadUrl(rest);
    default:
      return ReadMessage(rest);
  }
}

}  // namespace mtrun::fuzz
