// Parses the part of Python's pickle format that describes data, into plain values. Nothing is looked up,
// called or imported: a name in the file, or "call f with x", becomes a value that says so. The input can be
// arbitrary bytes. Pure functions.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace mtrun::trainers {

struct PickleValue {
  enum class Kind {
    kNone,
    kBool,
    kInt,
    kFloat,
    kString,  // also bytes
    kTuple,   // also a frozen set
    kList,    // items; also a set
    kDict,    // items: key, value, key, value, ...
    kGlobal,  // text: "module.name"
    // callee (a kGlobal, kCall or kPersistent) and argument (a kTuple); items like a dict's if the file adds
    // entries to it
    kCall,
    kPersistent,  // argument: name of an object outside the pickle
  };
  Kind kind = Kind::kNone;
  int64_t integer = 0;  // kBool, kInt
  double real = 0;
  std::string text;  // kString, kGlobal; raw bytes of a kInt of more than 8 bytes
  std::vector<const PickleValue*> items;
  const PickleValue* callee = nullptr;
  const PickleValue* argument = nullptr;
};

/// Values can be shared and can even contain themselves, so walk them with a bound.
struct Pickle {
  Pickle() = default;
  Pickle(Pickle&&) = default;
  Pickle& operator=(Pickle&&) = default;
  Pickle(const Pickle&) = delete;  // values point to each other: a copy would point into the original

  std::deque<PickleValue> values;  // owns all values
  const PickleValue* root = nullptr;
  uint64_t size = 0;  // bytes up to the end of the pickle
};

/// kDataLoss says at which byte the pickle is broken or uses a feature that data does not need.
absl::StatusOr<Pickle> ParsePickle(absl::string_view bytes);

}  // namespace mtrun::trainers
