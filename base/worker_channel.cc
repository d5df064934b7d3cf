#include "base/worker_channel.h"

#include <cmath>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/json_fields.h"
#include "base/json_lines.h"
#include "base/json_text.h"
#include "base/status_macros.h"

namespace mtrun::channel {
namespace {

using nlohmann::json;
using ByteMap = std::map<std::string, std::string>;

// ---- the messages: type and fields of each, in both directions (v is a Writer, a Reader or a TypeOf)

template <typename V>
void Visit(V& v, Hello& m) {
  v.Type("hello");
  v.Field("protocol", m.protocol);
  v.Field("pid", m.pid);
  v.Field("local_rank", m.local_rank);
  v.Field("cooperative", m.cooperative);
  v.Optional("reports", m.reports);
}
template <typename V>
void Visit(V& v, Ready& m) {
  v.Type("ready");
  v.Field("generation", m.generation);
}
template <typename V>
void Visit(V& v, Progress& m) {
  v.Type("progress");
  v.Field("epoch", m.epoch);
  v.Field("step", m.step);
  v.Field("samples", m.samples);
}
template <typename V>
void Visit(V& v, StepTimes& m) {
  v.Type("step_times");
  v.Field("step", m.step);
  v.Field("data_seconds", m.data_seconds);
  v.Field("exchange_seconds", m.exchange_seconds);
  v.Optional("loss", m.loss);
  v.Optional("learning_rate", m.learning_rate);
  v.Optional("accuracy", m.accuracy);
  v.Optional("epoch", m.epoch);
  v.Optional("epochs", m.epochs);
  v.Optional("total_steps", m.total_steps);
  v.Optional("run", m.run);
}
template <typename V>
void Visit(V& v, Watch& m) {
  v.Type("watch");
  v.Field("seconds", m.seconds);
}
template <typename V>
void Visit(V& v, StoreSet& m) {
  v.Type("store_set");
  v.Field("key", m.key);
  v.Bytes("value", m.value);
  v.Optional("generation", m.generation);
}
template <typename V>
void Visit(V& v, StoreGet& m) {
  v.Type("store_get");
  v.Field("id", m.id);
  v.Field("keys", m.keys);
  v.Optional("generation", m.generation);
}
template <typename V>
void Visit(V& v, StoreWait& m) {
  v.Type("store_wait");
  v.Field("id", m.id);
  v.Field("keys", m.keys);
  v.Optional("generation", m.generation);
}
template <typename V>
void Visit(V& v, Done& m) {
  v.Type("done");
  v.Field("step", m.step);
  v.Optional("generation", m.generation);
}
template <typename V>
void Visit(V& v, Leaving& m) {
  v.Type("leaving");
  v.Field("why", m.why);
}
template <typename V>
void Visit(V& v, Waiting& m) {
  v.Type("waiting");
  v.Field("generation", m.generation);
  v.Field("seconds", m.seconds);
  v.Optional("unreached", m.unreached);
}
template <typename V>
void Visit(V& v, Broken& m) {
  v.Type("broken");
  v.Field("generation", m.generation);
  v.Field("why", m.why);
}
template <typename V>
void Visit(V& v, DataKeyRequest&) {
  v.Type("data_key_request");
}
template <typename V>
void Visit(V& v, DataKeyReply& m) {
  v.Type("data_key");
  v.Field("key", m.key);
}
template <typename V>
void Visit(V& v, Peer& m) {
  v.Field("host", m.host);
  v.Field("address", m.address);
  v.Field("first_rank", m.first_rank);
  v.Field("workers", m.workers);
}
template <typename V>
void Visit(V& v, Assignment& m) {
  v.Type("assignment");
  v.Field("generation", m.generation);
  v.Field("rank", m.rank);
  v.Field("local_rank", m.local_rank);
  v.Field("world_size", m.world_size);
  v.Field("local_world_size", m.local_world_size);
  v.Field("node_rank", m.node_rank);
  v.Field("peers", m.peers);
}
template <typename V>
void Visit(V& v, Dissolved& m) {
  v.Type("dissolved");
  v.Field("generation", m.generation);
  v.Field("why", m.why);
  v.Field("graceful", m.graceful);
}
template <typename V>
void Visit(V& v, Drain& m) {
  v.Type("drain");
  v.Field("deadline_seconds", m.deadline_seconds);
  v.Field("why", m.why);
}
template <typename V>
void Visit(V& v, Stop& m) {
  v.Type("stop");
  v.Field("why", m.why);
  v.Optional("complete", m.complete);
  v.Optional("others_continue", m.others_continue);
}
template <typename V>
void Visit(V& v, StoreValues& m) {
  v.Type("store_values");
  v.Field("id", m.id);
  v.Bytes("values", m.values);
  v.Field("error", m.error);
}

// ---- the visitors

/// Converts a message to JSON.
class Writer {
 public:
  void Type(const char* name) { object_["type"] = name; }
  template <typename T>
  void Field(const char* name, const T& value) {
    object_[name] = value;
  }
  void Field(const char* name, const Generation& value) { object_[name] = ToText(value); }
  void Field(const char* name, std::vector<Peer>& peers) {
    json list = json::array();
    for (Peer& peer : peers) {
      Writer writer;
      Visit(writer, peer);
      list.push_back(std::move(writer.object_));
    }
    object_[name] = std::move(list);
  }
  /// Omits the current generation.
  void Optional(const char* name, const Generation& value) {
    if (value.number != 0) Field(name, value);
  }
  void Optional(const char* name, const std::optional<int>& value) {
    if (value) Field(name, *value);
  }
  /// Omits false, 0 and "".
  template <typename T>
  void Optional(const char* name, const T& value) {
    if (value != T()) Field(name, value);
  }
  /// Omits non-finite numbers, which JSON cannot express.
  void Optional(const char* name, const std::optional<double>& value) {
    if (value && std::isfinite(*value)) Field(name, *value);
  }
  void Bytes(const char* name, const std::string& value) { object_[name] = absl::Base64Escape(value); }
  void Bytes(const char* name, const ByteMap& values) {
    json object = json::object();
    for (const auto& [key, bytes] : values) object[key] = absl::Base64Escape(bytes);
    object_[name] = std::move(object);
  }
  const json& object() const { return object_; }

 private:
  json object_ = json::object();
};

/// Converts JSON to a message; a missing or mistyped field becomes a one-sentence error.
class Reader {
 public:
  Reader(std::string type, const json& object) : fields_(std::move(type), object) {}

  void Type(const char*) {}
  template <typename T>
  void Field(const char* name, T& value) {
    fields_.Read(name, value);
  }
  void Field(const char* name, Generation& value) {
    std::string text;
    fields_.Read(name, text);
    if (!fields_.status().ok()) return;
    const auto parsed = ParseGeneration(text);
    if (!parsed.ok()) return fields_.Complain(name, std::string(parsed.status().message()));
    value = *parsed;
  }
  void Field(const char* name, std::vector<Peer>& peers) {
    const json* const list = fields_.FindList(name);
    if (list == nullptr) return;
    for (const json& item : *list) {
      if (!item.is_object()) return fields_.Complain(name, "is not a list of objects");
      Reader reader(absl::StrCat(fields_.where(), ".", name), item);
      Visit(reader, peers.emplace_back());
      if (!reader.status().ok()) return fields_.Complain(reader.status());
    }
  }
  template <typename T>
  void Optional(const char* name, T& value) {
    if (fields_.Has(name)) Field(name, value);
  }
  template <typename T>
  void Optional(const char* name, std::optional<T>& value) {
    if (fields_.Has(name)) Field(name, value.emplace());
  }
  void Bytes(const char* name, std::string& value) {
    std::string encoded;
    fields_.Read(name, encoded);
    if (!absl::Base64Unescape(encoded, &value)) fields_.Complain(name, "is not base64");
  }
  void Bytes(const char* name, ByteMap& values) {
    const json* const object = fields_.Find(name);
    if (object == nullptr) return;
    if (!object->is_object()) return fields_.Complain(name, "is not an object");
    for (const auto& [key, encoded] : object->items()) {
      std::string bytes;
      if (!encoded.is_string() || !absl::Base64Unescape(encoded.get<std::string>(), &bytes))
        return fields_.Complain(name, "holds a value that is not base64");
      values[key] = std::move(bytes);
    }
  }
  const absl::Status& status() const { return fields_.status(); }

 private:
  JsonFields fields_;
};

/// Returns the name of a message's type.
class TypeOf {
 public:
  void Type(const char* name) { name_ = name; }
  void Field(const char*, const auto&) {}
  void Optional(const char*, const auto&) {}
  void Bytes(const char*, const auto&) {}
  const std::string& name() const { return name_; }

 private:
  std::string name_;
};

template <typename Variant>
std::string EncodeAny(Variant message) {
  Writer writer;
  std::visit([&](auto& m) { Visit(writer, m); }, message);
  // A file name or reason can contain bytes that are not UTF-8; these must not end the connection.
  return JsonLine(writer.object());
}

/// Returns an empty message of each type, by name.
template <typename... Messages>
std::map<std::string, std::variant<Messages...>> ByType(const std::variant<Messages...>&) {
  std::map<std::string, std::variant<Messages...>> empty;
  const auto add = [&](auto message) {
    TypeOf type;
    Visit(type, message);
    empty.emplace(type.name(), std::move(message));
  };
  (add(Messages{}), ...);
  return empty;
}

/// Reads the alternative named by the field "type".
template <typename Variant>
absl::StatusOr<Variant> DecodeAny(std::string_view line) {
  static const auto& empty = *new std::map<std::string, Variant>(ByType(Variant()));
  MT_ASSIGN_OR_RETURN(const json object, ParseJsonObject(line, LineBuffer::kDefaultMaxLine));
  const auto type = object.find("type");
  if (type == object.end() || !type->is_string())
    return absl::InvalidArgumentError("message without a \"type\"");
  const auto found = empty.find(type->get<std::string>());
  if (found == empty.end()) {
    return absl::InvalidArgumentError(
        absl::StrCat("unknown message type \"", type->get<std::string>(), "\""));
  }
  Variant message = found->second;
  Reader reader(found->first, object);
  std::visit([&](auto& m) { Visit(reader, m); }, message);
  MT_RETURN_IF_ERROR(reader.status());
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

std::string Encode(const WorkerMessage& message) { return EncodeAny(message); }
std::string Encode(const AgentMessage& message) { return EncodeAny(message); }

std::string Implausible(const Progress& progress) {
  constexpr int64_t kMax = int64_t{1} << 53;
  const auto outside = [](const char* name, int64_t value, int64_t least) {
    return value >= least && value <= kMax ? "" : absl::StrCat(name, " ", value);
  };
  for (const std::string& text : {outside("epoch", progress.epoch, -1), outside("step", progress.step, 0),
                                  outside("samples", progress.samples, -1)}) {
    if (!text.empty()) return text;
  }
  return "";
}

absl::StatusOr<WorkerMessage> DecodeWorkerMessage(std::string_view line) {
  return DecodeAny<WorkerMessage>(line);
}
absl::StatusOr<AgentMessage> DecodeAgentMessage(std::string_view line) {
  return DecodeAny<AgentMessage>(line);
}

}  // namespace mtrun::channel
