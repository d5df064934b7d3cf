#include "base/worker_channel.h"

#include <optional>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/json_lines.h"
#include "base/status_macros.h"

namespace mtrun::channel {
namespace {

using nlohmann::json;

// ---- one field at a time: missing or wrong type becomes one sentence
// ------------------------------------------------

class Fields {
 public:
  Fields(std::string type, const json& object) : type_(std::move(type)), object_(object) {}

  template <typename Int>
  void Number(const char* name, Int* out) {
    const json* value = Find(name);
    if (value == nullptr) return;
    if (!value->is_number_integer()) return Complain(name, "is not a whole number");
    *out = value->get<Int>();
  }
  void Real(const char* name, double* out) {
    const json* value = Find(name);
    if (value == nullptr) return;
    if (!value->is_number()) return Complain(name, "is not a number");
    *out = value->get<double>();
  }
  void Bool(const char* name, bool* out) {
    const json* value = Find(name);
    if (value == nullptr) return;
    if (!value->is_boolean()) return Complain(name, "is not true or false");
    *out = value->get<bool>();
  }
  void Text(const char* name, std::string* out) {
    const json* value = Find(name);
    if (value == nullptr) return;
    if (!value->is_string()) return Complain(name, "is not text");
    *out = value->get<std::string>();
  }
  void Bytes(const char* name, std::string* out) {
    std::string encoded;
    Text(name, &encoded);
    if (!absl::Base64Unescape(encoded, out)) Complain(name, "is not base64");
  }
  void Texts(const char* name, std::vector<std::string>* out) {
    const json* value = Find(name);
    if (value == nullptr) return;
    if (!value->is_array()) return Complain(name, "is not a list");
    for (const json& item : *value) {
      if (!item.is_string()) return Complain(name, "is not a list of texts");
      out->push_back(item.get<std::string>());
    }
  }
  void Gen(const char* name, Generation* out) {
    std::string text;
    Text(name, &text);
    if (!status_.ok()) return;
    auto parsed = ParseGeneration(text);
    if (!parsed.ok()) return Complain(name, std::string(parsed.status().message()));
    *out = *parsed;
  }
  /// Absent means the current one.
  void OptionalGen(const char* name, Generation* out) {
    if (object_.contains(name)) Gen(name, out);
  }
  void ByteMap(const char* name, std::map<std::string, std::string>* out) {
    const json* value = Find(name);
    if (value == nullptr) return;
    if (!value->is_object()) return Complain(name, "is not an object");
    for (const auto& [key, encoded] : value->items()) {
      std::string bytes;
      if (!encoded.is_string() || !absl::Base64Unescape(encoded.get<std::string>(), &bytes)) {
        return Complain(name, "holds a value that is not base64");
      }
      (*out)[key] = std::move(bytes);
    }
  }
  void Peers(const char* name, std::vector<Peer>* out) {
    const json* value = Find(name);
    if (value == nullptr) return;
    if (!value->is_array()) return Complain(name, "is not a list");
    for (const json& item : *value) {
      if (!item.is_object()) return Complain(name, "is not a list of objects");
      Fields fields(absl::StrCat(type_, ".", name), item);
      Peer peer;
      fields.Text("host", &peer.host);
      fields.Text("address", &peer.address);
      fields.Number("first_rank", &peer.first_rank);
      fields.Number("workers", &peer.workers);
      if (!fields.status_.ok()) {
        status_ = fields.status_;
        return;
      }
      out->push_back(std::move(peer));
    }
  }
  const absl::Status& status() const { return status_; }

 private:
  const json* Find(const char* name) {
    const auto found = object_.find(name);
    if (found != object_.end()) return &*found;
    Complain(name, "is missing");
    return nullptr;
  }
  void Complain(const char* name, std::string what) {
    if (status_.ok())
      status_ = absl::InvalidArgumentError(absl::StrCat(type_, ": field \"", name, "\" ", what));
  }

  std::string type_;
  const json& object_;
  absl::Status status_;
};

json ByteMapToJson(const std::map<std::string, std::string>& values) {
  json object = json::object();
  for (const auto& [key, bytes] : values) object[key] = absl::Base64Escape(bytes);
  return object;
}

json PeersToJson(const std::vector<Peer>& peers) {
  json list = json::array();
  for (const Peer& peer : peers) {
    list.push_back({{"host", peer.host},
                    {"address", peer.address},
                    {"first_rank", peer.first_rank},
                    {"workers", peer.workers}});
  }
  return list;
}

// ---- a message to JSON
// --------------------------------------------------------------------------------------------------

json InGeneration(json message, const Generation& generation) {
  if (generation.number != 0) message["generation"] = ToText(generation);
  return message;
}

struct ToJson {
  json operator()(const Hello& m) const {
    return {{"type", "hello"},      {"protocol", m.protocol},
            {"pid", m.pid},         {"local_rank", m.local_rank},
            {"address", m.address}, {"cooperative", m.cooperative}};
  }
  json operator()(const Ready& m) const { return {{"type", "ready"}, {"generation", ToText(m.generation)}}; }
  json operator()(const Progress& m) const {
    return {{"type", "progress"}, {"epoch", m.epoch}, {"step", m.step}, {"samples", m.samples}};
  }
  json operator()(const StoreSet& m) const {
    return InGeneration({{"type", "store_set"}, {"key", m.key}, {"value", absl::Base64Escape(m.value)}},
                        m.generation);
  }
  json operator()(const StoreGet& m) const {
    return InGeneration({{"type", "store_get"}, {"id", m.id}, {"keys", m.keys}}, m.generation);
  }
  json operator()(const StoreWait& m) const {
    return InGeneration({{"type", "store_wait"}, {"id", m.id}, {"keys", m.keys}}, m.generation);
  }
  json operator()(const Waiting& m) const {
    return {{"type", "waiting"}, {"generation", ToText(m.generation)}, {"seconds", m.seconds}};
  }
  json operator()(const Broken& m) const {
    return {{"type", "broken"}, {"generation", ToText(m.generation)}, {"why", m.why}};
  }
  json operator()(const Done& m) const {
    return InGeneration({{"type", "done"}, {"step", m.step}}, m.generation);
  }
  json operator()(const Leaving& m) const { return {{"type", "leaving"}, {"why", m.why}}; }
  json operator()(const Assignment& m) const {
    return {{"type", "assignment"},
            {"generation", ToText(m.generation)},
            {"rank", m.rank},
            {"local_rank", m.local_rank},
            {"world_size", m.world_size},
            {"local_world_size", m.local_world_size},
            {"node_rank", m.node_rank},
            {"peers", PeersToJson(m.peers)}};
  }
  json operator()(const Dissolved& m) const {
    return {
        {"type", "dissolved"}, {"generation", ToText(m.generation)}, {"why", m.why}, {"gentle", m.gentle}};
  }
  json operator()(const Drain& m) const {
    return {{"type", "drain"}, {"deadline_seconds", m.deadline_seconds}, {"why", m.why}};
  }
  json operator()(const Stop& m) const { return {{"type", "stop"}, {"why", m.why}}; }
  json operator()(const StoreValues& m) const {
    return {{"type", "store_values"}, {"id", m.id}, {"values", ByteMapToJson(m.values)}, {"error", m.error}};
  }
};

// A file name or reason may hold bytes that are not UTF-8; they must not end the connection.
std::string Line(const json& object) {
  return object.dump(-1, ' ', false, json::error_handler_t::replace) + "\n";
}

// ---- JSON to a message
// --------------------------------------------------------------------------------------------------

Hello Read(Fields& f, Hello m) {
  f.Number("protocol", &m.protocol);
  f.Number("pid", &m.pid);
  f.Number("local_rank", &m.local_rank);
  f.Text("address", &m.address);
  f.Bool("cooperative", &m.cooperative);
  return m;
}
Ready Read(Fields& f, Ready m) {
  f.Gen("generation", &m.generation);
  return m;
}
Progress Read(Fields& f, Progress m) {
  f.Number("epoch", &m.epoch);
  f.Number("step", &m.step);
  f.Number("samples", &m.samples);
  return m;
}
StoreSet Read(Fields& f, StoreSet m) {
  f.Text("key", &m.key);
  f.Bytes("value", &m.value);
  f.OptionalGen("generation", &m.generation);
  return m;
}
template <typename Ask>
Ask ReadAsk(Fields& f, Ask m) {
  f.Number("id", &m.id);
  f.Texts("keys", &m.keys);
  f.OptionalGen("generation", &m.generation);
  return m;
}
StoreGet Read(Fields& f, StoreGet m) { return ReadAsk(f, std::move(m)); }
StoreWait Read(Fields& f, StoreWait m) { return ReadAsk(f, std::move(m)); }
Done Read(Fields& f, Done m) {
  f.Number("step", &m.step);
  f.OptionalGen("generation", &m.generation);
  return m;
}
Leaving Read(Fields& f, Leaving m) {
  f.Text("why", &m.why);
  return m;
}
Waiting Read(Fields& f, Waiting m) {
  f.Gen("generation", &m.generation);
  f.Real("seconds", &m.seconds);
  return m;
}
Broken Read(Fields& f, Broken m) {
  f.Gen("generation", &m.generation);
  f.Text("why", &m.why);
  return m;
}
Assignment Read(Fields& f, Assignment m) {
  f.Gen("generation", &m.generation);
  f.Number("rank", &m.rank);
  f.Number("local_rank", &m.local_rank);
  f.Number("world_size", &m.world_size);
  f.Number("local_world_size", &m.local_world_size);
  f.Number("node_rank", &m.node_rank);
  f.Peers("peers", &m.peers);
  return m;
}
Dissolved Read(Fields& f, Dissolved m) {
  f.Gen("generation", &m.generation);
  f.Text("why", &m.why);
  f.Bool("gentle", &m.gentle);
  return m;
}
Drain Read(Fields& f, Drain m) {
  f.Real("deadline_seconds", &m.deadline_seconds);
  f.Text("why", &m.why);
  return m;
}
Stop Read(Fields& f, Stop m) {
  f.Text("why", &m.why);
  return m;
}
StoreValues Read(Fields& f, StoreValues m) {
  f.Number("id", &m.id);
  f.ByteMap("values", &m.values);
  f.Text("error", &m.error);
  return m;
}

template <typename Variant>
using Candidates = std::map<std::string, Variant>;

/// Reads the alternative of `candidates` that the field "type" names.
template <typename Variant>
absl::StatusOr<Variant> Decode(std::string_view line, const Candidates<Variant>& candidates) {
  MT_ASSIGN_OR_RETURN(const json object, ParseJsonObject(line));
  const auto type = object.find("type");
  if (type == object.end() || !type->is_string())
    return absl::InvalidArgumentError("message without a \"type\"");
  const auto found = candidates.find(type->get<std::string>());
  if (found == candidates.end()) {
    return absl::InvalidArgumentError(
        absl::StrCat("unknown message type \"", type->get<std::string>(), "\""));
  }
  Fields fields(found->first, object);
  Variant message =
      std::visit([&](auto empty) { return Variant(Read(fields, std::move(empty))); }, found->second);
  MT_RETURN_IF_ERROR(fields.status());
  return message;
}

}  // namespace

std::string ToText(const Generation& generation) {
  return absl::StrFormat("%d.%016x", generation.number, generation.id);
}

absl::StatusOr<Generation> ParseGeneration(std::string_view text) {
  const absl::string_view view(text.data(), text.size());
  const size_t dot = view.find('.');
  Generation generation;
  if (dot == absl::string_view::npos || !absl::SimpleAtoi(view.substr(0, dot), &generation.number) ||
      !absl::SimpleHexAtoi(view.substr(dot + 1), &generation.id)) {
    return absl::InvalidArgumentError(
        absl::StrCat("\"", view, "\" is not a generation (number.hexadecimal id)"));
  }
  return generation;
}

std::string Encode(const WorkerMessage& message) { return Line(std::visit(ToJson{}, message)); }
std::string Encode(const AgentMessage& message) { return Line(std::visit(ToJson{}, message)); }

absl::StatusOr<WorkerMessage> DecodeWorkerMessage(std::string_view line) {
  static const auto& candidates = *new Candidates<WorkerMessage>{
      {"hello", Hello{}},        {"ready", Ready{}},        {"progress", Progress{}},
      {"store_set", StoreSet{}}, {"store_get", StoreGet{}}, {"store_wait", StoreWait{}},
      {"done", Done{}},          {"leaving", Leaving{}},    {"waiting", Waiting{}},
      {"broken", Broken{}}};
  return Decode(line, candidates);
}

absl::StatusOr<AgentMessage> DecodeAgentMessage(std::string_view line) {
  static const auto& candidates = *new Candidates<AgentMessage>{{"assignment", Assignment{}},
                                                                {"dissolved", Dissolved{}},
                                                                {"drain", Drain{}},
                                                                {"stop", Stop{}},
                                                                {"store_values", StoreValues{}}};
  return Decode(line, candidates);
}

}  // namespace mtrun::channel
