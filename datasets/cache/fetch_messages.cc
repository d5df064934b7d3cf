#include "datasets/cache/fetch_messages.h"

#include <array>

#include "absl/strings/str_cat.h"
#include "base/json_fields.h"
#include "nlohmann/json.hpp"

namespace mtrun::datasets::fetch {
namespace {

using nlohmann::json;

// ---- the fields of each message, in both directions (v writes or reads a field)

void Visit(auto& v, Open& m) {
  v("url", m.url);
  v("data_key", m.secrets.data_key);
  v("bearer", m.secrets.bearer);
  v("access_key", m.secrets.access_key);
  v("secret_key", m.secrets.secret_key);
  v("session_token", m.secrets.session_token);
  v("s3_endpoint", m.s3_endpoint);
  v("s3_region", m.s3_region);
  v("redirects", m.redirects);
  v("cache_bytes", m.cache_bytes);
}
void Visit(auto& v, Want& m) { v("files", m.files); }
void Visit(auto& v, Opened& m) { v("digest", m.digest); }
void Visit(auto& v, Here& m) { v("file", m.file); }
void Visit(auto& v, Trouble& m) { v("text", m.text); }
void Visit(auto& v, Failed& m) { v("text", m.text); }

struct Kind {
  const char* type;
  Message empty;
};

/// Returns one of each kind, in the order of Message. Never destroyed: threads may decode until the process ends.
const std::array<Kind, std::variant_size_v<Message>>& Kinds() {
  static const auto& kinds = *new std::array<Kind, std::variant_size_v<Message>>{{{"open", Open{}},
                                                                                  {"want", Want{}},
                                                                                  {"opened", Opened{}},
                                                                                  {"here", Here{}},
                                                                                  {"trouble", Trouble{}},
                                                                                  {"failed", Failed{}}}};
  return kinds;
}

}  // namespace

std::string Encode(const Message& message) {
  json object = json::object();
  object["type"] = Kinds()[message.index()].type;
  const auto write = [&](const char* name, const auto& value) { object[name] = value; };
  std::visit([&](auto m) { Visit(write, m); }, message);
  return object.dump(-1, ' ', false, json::error_handler_t::replace) + "\n";
}

absl::StatusOr<Message> Decode(std::string_view line) {
  const json object = json::parse(line, nullptr, /*allow_exceptions=*/false);
  std::string type;
  JsonFields head("a message about data", object);
  head.Read("type", type);
  if (!head.status().ok()) return head.status();
  for (const Kind& kind : Kinds()) {
    if (type != kind.type) continue;
    Message message = kind.empty;
    JsonFields fields(type, object);
    const auto read = [&](const char* name, auto& value) { fields.Read(name, value); };
    std::visit([&](auto& m) { Visit(read, m); }, message);
    if (!fields.status().ok()) return fields.status();
    return message;
  }
  return absl::InvalidArgumentError(absl::StrCat("unknown type of message about data: \"", type, "\""));
}

}  // namespace mtrun::datasets::fetch
