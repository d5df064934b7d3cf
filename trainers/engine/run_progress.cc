#include "trainers/engine/run_progress.h"

#include <cmath>
#include <limits>

#include "absl/strings/str_cat.h"

namespace mtrun::engine {
namespace {

using nlohmann::json;

/// JSON has no word for what is not finite but null.
json Number(double value) { return std::isfinite(value) ? json(value) : json(nullptr); }

json ToJson(const EvalRecord& r) {
  return {{"steps", r.steps},
          {"epoch", r.epoch},
          {"train_loss", Number(r.train_loss)},
          {"train_accuracy", Number(r.train_accuracy)},
          {"test_loss", Number(r.test_loss)},
          {"test_accuracy", Number(r.test_accuracy)},
          {"seconds", Number(r.seconds)},
          {"classified", r.classified}};
}

/// Reads fields and remembers the first one that is missing or of another kind.
class Fields {
 public:
  explicit Fields(const json& object) : object_(object) {}

  void Read(const char* name, double& value) {
    const json& found = Find(name);
    if (found.is_number()) {
      value = found.get<double>();
    } else if (found.is_null() && object_.is_object() && object_.contains(name)) {
      value = std::numeric_limits<double>::quiet_NaN();
    } else {
      Fail(name);
    }
  }
  void Read(const char* name, int64_t& value) {
    const json& found = Find(name);
    if (!found.is_number_integer()) return Fail(name);
    value = found.get<int64_t>();
  }
  void Read(const char* name, bool& value) {
    const json& found = Find(name);
    if (!found.is_boolean()) return Fail(name);
    value = found.get<bool>();
  }
  const json& Array(const char* name) {
    const json& found = Find(name);
    if (found.is_array()) return found;
    Fail(name);
    static const json kEmpty = json::array();
    return kEmpty;
  }
  const json& Find(const char* name) const {
    static const json kNothing;
    if (!object_.is_object()) return kNothing;
    const auto found = object_.find(name);
    return found == object_.end() ? kNothing : *found;
  }
  void Fail(const char* name) {
    if (bad_.empty()) bad_ = name;
  }
  absl::Status status() const {
    if (bad_.empty()) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat("progress: \"", bad_, "\" is missing or malformed"));
  }

 private:
  const json& object_;
  std::string bad_;
};

absl::StatusOr<EvalRecord> EvalRecordFromJson(const json& entry) {
  EvalRecord r;
  Fields fields(entry);
  fields.Read("steps", r.steps);
  fields.Read("epoch", r.epoch);
  fields.Read("train_loss", r.train_loss);
  fields.Read("train_accuracy", r.train_accuracy);
  fields.Read("test_loss", r.test_loss);
  fields.Read("test_accuracy", r.test_accuracy);
  fields.Read("seconds", r.seconds);
  fields.Read("classified", r.classified);
  if (!fields.status().ok()) return fields.status();
  return r;
}

}  // namespace

json ToJson(const RunProgress& p) {
  json history = json::array();
  for (const EvalRecord& record : p.history) history.push_back(ToJson(record));
  return {{"samples", p.samples},
          {"sums",
           {{"loss", Number(p.sums.loss)},
            {"correct", p.sums.correct},
            {"samples", p.sums.samples},
            {"seconds", Number(p.sums.seconds)}}},
          {"seconds", Number(p.seconds)},
          {"saving", Number(p.saving)},
          {"history", history},
          {"confusion", p.confusion},
          {"finished", p.finished}};
}

absl::StatusOr<RunProgress> RunProgressFromJson(const json& object) {
  RunProgress p;
  Fields fields(object);
  fields.Read("samples", p.samples);
  fields.Read("seconds", p.seconds);
  fields.Read("saving", p.saving);
  fields.Read("finished", p.finished);
  Fields sums(fields.Find("sums"));
  sums.Read("loss", p.sums.loss);
  sums.Read("correct", p.sums.correct);
  sums.Read("samples", p.sums.samples);
  sums.Read("seconds", p.sums.seconds);
  for (const json& entry : fields.Array("history")) {
    auto record = EvalRecordFromJson(entry);
    if (!record.ok()) return record.status();
    p.history.push_back(*record);
  }
  for (const json& count : fields.Array("confusion")) {
    if (!count.is_number_integer() || count < 0) {
      fields.Fail("confusion");
      break;
    }
    p.confusion.push_back(count.get<int64_t>());
  }
  if (!fields.status().ok()) return fields.status();
  if (!sums.status().ok()) return sums.status();
  const auto classes = static_cast<size_t>(std::lround(std::sqrt(static_cast<double>(p.confusion.size()))));
  if (classes * classes != p.confusion.size()) {
    return absl::InvalidArgumentError("progress: \"confusion\" is not a square matrix");
  }
  return p;
}

}  // namespace mtrun::engine
