// One option of a training program, and the table that lists them. A row defines the flag, its default and
// help, the member of TrainOptions that it fills, and its scope. Does not depend on LibTorch.
#pragma once

#include <concepts>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/settings.h"
#include "base/status_macros.h"

namespace mtrun::trainers {

struct TrainOptions;

/// The workers that must agree on an option.
enum class Scope {
  kRun,         // all members and all restarts: part of the identity in checkpoints
  kGeneration,  // the members of a generation; a restart can differ
  kFree,        // none
};

struct Option {
  SettingSpec spec;
  Scope scope;
  std::string identity = "";              // its name in checkpoints; "": the flag's name
  std::optional<std::string> since = {};  // its text for checkpoints of releases that did not have it
  std::string through = "";               // the option whose value shows this one's effect; "": its own
  std::function<absl::Status(const Settings&, TrainOptions&)> read = nullptr;  // null: fills no member
  std::function<std::string(const TrainOptions&)> text = nullptr;  // text of the member in checkpoints

  const std::string& identity_name() const { return identity.empty() ? spec.name : identity; }
};

/// Additional properties of a row. Valid until the next row is added.
class OptionRow {
 public:
  explicit OptionRow(Option& option) : option_(option) {}
  OptionRow& Min(double min) { return option_.spec.min = min, *this; }
  OptionRow& Max(double max) { return option_.spec.max = max, *this; }
  OptionRow& Choices(std::vector<std::string> choices) {
    return option_.spec.choices = std::move(choices), *this;
  }
  /// Sets names that other programs use for it, for "did you mean".
  OptionRow& Hints(std::vector<std::string> names) { return option_.spec.hints = std::move(names), *this; }
  /// Sets other words for choices: {"gpu", "cuda"}.
  OptionRow& Same(std::vector<std::pair<std::string, std::string>> words) {
    return option_.spec.same = std::move(words), *this;
  }
  /// Sets the form of the value in --help: "FOLDER".
  OptionRow& Takes(std::string value) { return option_.spec.value = std::move(value), *this; }
  /// Sets the default in --help of an option that is not set.
  OptionRow& Otherwise(std::string text) { return option_.spec.otherwise = std::move(text), *this; }
  /// Lists the option first in --help.
  OptionRow& Common() { return option_.spec.common = true, *this; }
  /// Sets the name for checkpoints.
  OptionRow& InCheckpoints(std::string name) { return option_.identity = std::move(name), *this; }
  /// Sets the name in an earlier release, which flags, files and checkpoints keep.
  OptionRow& Was(std::string name) {
    option_.spec.aliases.push_back(name);
    return InCheckpoints(std::move(name));
  }
  /// Sets the value, as checkpoint text, that releases without this option had. Their checkpoints lack it.
  OptionRow& Since(std::string text) { return option_.since = std::move(text), *this; }
  /// Makes it a flag without a value, or with one of true, false and `choices`.
  OptionRow& FlagOr(std::vector<std::string> choices) {
    option_.spec.kind = SettingSpec::Kind::kBool;
    return Choices(std::move(choices));
  }
  /// Declares that the value of `option` shows the full effect of this one.
  OptionRow& Through(std::string option) { return option_.through = std::move(option), *this; }

 private:
  Option& option_;
};

class OptionTable {
 public:
  explicit OptionTable(std::string program) : program_(std::move(program)) {}

  const std::string& program() const { return program_; }
  /// Sets the heading in --help for the rows that follow.
  void Group(std::string name) { group_ = std::move(name); }

  /// Adds a row whose value goes to the member of TrainOptions along `path`: &TrainOptions::optimizer,
  /// &OptimizerOptions::momentum. The member's type decides what the flag accepts; numbers must be 0 or more
  /// unless the row says otherwise. If the option is not set, the member keeps its value.
  template <typename... Path>
  requires(sizeof...(Path) > 0) OptionRow
      Add(std::string name, std::string value, Scope scope, std::string help, Path... path) {
    using Member = std::remove_cvref_t<decltype(At(std::declval<TrainOptions&>(), path...))>;
    Option& option = NewRow<Member>(name, std::move(value), scope, std::move(help));
    option.read = [name, path...](const Settings& settings, TrainOptions& options) {
      if (settings.IsSet(name)) At(options, path...) = Read<Member>(settings, name);
      return absl::OkStatus();
    };
    option.text = [path...](const TrainOptions& options) { return absl::StrCat(At(options, path...)); };
    return OptionRow(option);
  }
  /// Adds a row that has no member; the flag accepts a `Value`.
  template <typename Value>
  OptionRow Add(std::string name, std::string value, Scope scope, std::string help) {
    return OptionRow(NewRow<Value>(std::move(name), std::move(value), scope, std::move(help)));
  }
  /// Adds a row whose member `parse` (const std::string& to absl::StatusOr) makes from the text. Checkpoints
  /// show the member as a number.
  template <typename Parse, typename... Path>
  OptionRow AddParsed(std::string name, std::string value, Scope scope, std::string help, Parse parse,
                      Path... path) {
    Option& option = NewRow<std::string>(name, std::move(value), scope, std::move(help));
    option.read = [name, parse, path...](const Settings& settings, TrainOptions& options) {
      MT_ASSIGN_OR_RETURN(At(options, path...), parse(settings.Text(name)));
      return absl::OkStatus();
    };
    option.text = [path...](const TrainOptions& options) {
      return absl::StrCat(static_cast<int>(At(options, path...)));
    };
    return OptionRow(option);
  }

  const std::vector<Option>& options() const { return options_; }

 private:
  template <typename Object, typename First, typename... Rest>
  static auto& At(Object& object, First first, Rest... rest) {
    if constexpr (sizeof...(rest) == 0) {
      return object.*first;
    } else {
      return At(object.*first, rest...);
    }
  }

  template <typename Value>
  static Value Read(const Settings& settings, const std::string& name) {
    if constexpr (std::same_as<Value, bool>) {
      return settings.Bool(name);
    } else if constexpr (std::integral<Value>) {
      return static_cast<Value>(settings.Int(name));
    } else if constexpr (std::floating_point<Value>) {
      return settings.Double(name);
    } else {
      return settings.Text(name);
    }
  }

  template <typename Value>
  Option& NewRow(std::string name, std::string value, Scope scope, std::string help) {
    SettingSpec spec{
        .name = std::move(name), .default_text = std::move(value), .help = std::move(help), .group = group_};
    if constexpr (std::same_as<Value, bool>) {
      spec.kind = SettingSpec::Kind::kBool;
    } else if constexpr (std::is_arithmetic_v<Value>) {
      spec.kind = std::integral<Value> ? SettingSpec::Kind::kInt : SettingSpec::Kind::kDouble;
      spec.min = 0;
      // A larger value would be truncated to the member's type.
      if constexpr (std::integral<Value> && sizeof(Value) < sizeof(int64_t))
        spec.max = static_cast<double>(std::numeric_limits<Value>::max());
    }
    return options_.emplace_back(Option{.spec = std::move(spec), .scope = scope});
  }

  const std::string program_;
  std::string group_;
  std::vector<Option> options_;
};

}  // namespace mtrun::trainers
