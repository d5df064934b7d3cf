#include <map>
#include <string>

#include "page/gate.h"
#include "page/metrics.h"
#include "page/request_parts.h"
#include "tests/fuzz/fuzz_targets.h"
#include "tests/fuzz/invariant.h"
#include "tests/support/token.h"

namespace mtrun::fuzz {
namespace {

using page::Gate;

/// Parses "name: value" lines, then a body after an empty line.
web::Request RequestIn(std::string_view bytes) {
  web::Request request{.method = "POST", .peer = "peer"};
  while (!bytes.empty()) {
    const size_t end = bytes.find('\n');
    const std::string_view line = bytes.substr(0, end);
    bytes = end == std::string_view::npos ? "" : bytes.substr(end + 1);
    if (line.empty()) break;
    const size_t mark = line.find(": ");
    if (mark != std::string_view::npos)
      request.headers[std::string(line.substr(0, mark))] = line.substr(mark + 2);
  }
  request.body = bytes;
  return request;
}

void ReadParts(std::string_view bytes) {
  if (const auto host = page::HostIn(bytes)) {
    MT_HOLDS(!host->empty() && host->find_first_of(" /@\"<>\n") == std::string::npos) << *host;
    MT_HOLDS(!page::IsOwnOrigin("null", bytes, false));
  }
  const auto form = page::ParseForm(bytes);
  MT_HOLDS(!form || form->size() <= page::kMaxFields) << form->size();
  page::BearerIn(bytes);
  page::BasicPasswordIn(bytes);
  const std::string label = page::LabelText(std::string(bytes));
  MT_HOLDS(label.find('\n') == std::string::npos) << label;
}

}  // namespace

void FuzzPage(std::string_view bytes) {
  ReadParts(bytes);
  // No input grants access: the token is not in the corpus, and no session exists.
  Gate gate({.token = support::kToken, .random = [] { return std::string("random"); }});
  const web::Request request = RequestIn(bytes);
  MT_HOLDS(gate.Check(request, Gate::Need::kViewer, TimePoint()).refusal.has_value());
  MT_HOLDS(gate.Check(request, Gate::Need::kOperator, TimePoint()).refusal.has_value());
  MT_HOLDS(gate.LogIn(request, TimePoint()).status >= 400);
}

}  // namespace mtrun::fuzz
