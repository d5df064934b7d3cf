#include "datasets/cache/fetch_messages.h"

#include "absl/strings/str_cat.h"
#include "base/json_fields.h"
#include "base/json_text.h"
#include "nlohmann/json.hpp"

namespace mtrun::datasets::fetch {
namespace {

using nlohmann::json;

json Fields(const Open& m) {
  return {{"type", "open"},
          {"url", m.url},
          {"data_key", m.secrets.data_key},
          {"bearer", m.secrets.bearer},
          {"access_key", m.secrets.access_key},
          {"secret_key", m.secrets.secret_key},
          {"session_token", m.secrets.session_token},
          {"s3_endpoint", m.s3_endpoint},
          {"s3_region", m.s3_region},
          {"redirects", m.redirects},
          {"cache_bytes", m.cache_bytes}};
}
json Fields(const Want& m) { return {{"type", "want"}, {"files", m.files}}; }
json Fields(const Opened& m) { return {{"type", "opened"}, {"digest", m.digest}}; }
json Fields(const Here& m) { return {{"type", "here"}, {"file", m.file}}; }
json Fields(const Trouble& m) { return {{"type", "trouble"}, {"text", m.text}}; }
json Fields(const Failed& m) { return {{"type", "failed"}, {"text", m.text}}; }

void Read(JsonFields& fields, Open& m) {
  fields.Read("url", m.url);
  fields.Read("data_key", m.secrets.data_key);
  fields.Read("bearer", m.secrets.bearer);
  fields.Read("access_key", m.secrets.access_key);
  fields.Read("secret_key", m.secrets.secret_key);
  fields.Read("session_token", m.secrets.session_token);
  fields.Read("s3_endpoint", m.s3_endpoint);
  fields.Read("s3_region", m.s3_region);
  fields.Read("redirects", m.redirects);
  fields.Read("cache_bytes", m.cache_bytes);
}
void Read(JsonFields& fields, Want& m) { fields.Read("files", m.files); }
void Read(JsonFields& fields, Opened& m) { fields.Read("digest", m.digest); }
void Read(JsonFields& fields, Here& m) { fields.Read("file", m.file); }
void Read(JsonFields& fields, Trouble& m) { fields.Read("text", m.text); }
void Read(JsonFields& fields, Failed& m) { fields.Read("text", m.text); }

template <typename Kind>
absl::StatusOr<Message> As(const std::string& type, const json& object) {
  Kind message;
  JsonFields fields(type, object);
  Read(fields, message);
  if (!fields.status().ok()) return fields.status();
  return Message(std::move(message));
}

}  // namespace

std::string Encode(const Message& message) {
  const json object = std::visit([](const auto& m) { return Fields(m); }, message);
  return object.dump(-1, ' ', false, json::error_handler_t::replace) + "\n";
}

absl::StatusOr<Message> Decode(std::string_view line) {
  const json object = json::parse(line, nullptr, /*allow_exceptions=*/false);
  std::string type;
  JsonFields fields("a message about data", object);
  fields.Read("type", type);
  if (!fields.status().ok()) return fields.status();
  if (type == "open") return As<Open>(type, object);
  if (type == "want") return As<Want>(type, object);
  if (type == "opened") return As<Opened>(type, object);
  if (type == "here") return As<Here>(type, object);
  if (type == "trouble") return As<Trouble>(type, object);
  if (type == "failed") return As<Failed>(type, object);
  return absl::InvalidArgumentError(absl::StrCat("unknown type of message about data: \"", type, "\""));
}

}  // namespace mtrun::datasets::fetch
