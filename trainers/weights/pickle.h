// Parses the part of Python's pickle format that data is made of, into plain values. Nothing is ever looked
// up, called or imported: "call f with x" in the file becomes a value that says so, and only names on a list
// are let through. Any bytes at all may be given. Pure functions.
#pragma once

#include <cstdint>
#include <deque>
#include <set>
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
    kString,
    kTuple,
    kList,    // items
    kDict,    // items: key, value, key, value, ...
    kGlobal,  // text: "module.name"
    kCall,  // callee (a kGlobal) and argument (a kTuple); items like a dict's where the file adds entries to
            // it
    kPersistent,  // argument: what names an object outside of the pickle
  };
  Kind kind = Kind::kNone;
  int64_t integer = 0;  // kBool, kInt
  double real = 0;
  std::string text;  // kString, kGlobal; a kInt of more than 8 bytes as it is in the file
  std::vector<const PickleValue*> items;
  const PickleValue* callee = nullptr;
  const PickleValue* argument = nullptr;
};

/// Values may be shared and may even contain themselves: walk them with a bound.
struct Pickle {
  Pickle() = default;
  Pickle(Pickle&&) = default;
  Pickle& operator=(Pickle&&) = default;
  Pickle(const Pickle&) = delete;  // values point at each other: a copy would point into the original

  std::deque<PickleValue> values;  // owns all
  const PickleValue* root = nullptr;
  uint64_t size = 0;  // bytes up to the end of the pickle
};

/// `allowed`: the globals that may appear, "module.name". kPermissionDenied names another one; kDataLoss says
/// at which byte the pickle is broken or uses what data has no need of.
absl::StatusOr<Pickle> ParsePickle(absl::string_view bytes, const std::set<std::string>& allowed);

}  // namespace mtrun::trainers
