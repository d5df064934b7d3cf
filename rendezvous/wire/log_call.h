// A request for a worker's output (mtrun --logs), which the service passes on to the node of that rank, and
// the answer. Values.
#pragma once

#include <cstdint>
#include <string>

#include "rendezvous/wire/control_call.h"
#include "rendezvous/wire/fields.h"

namespace mtrun::rendezvous {

/// Limit for each stream in one answer.
inline constexpr size_t kMaxLogBytes = 32 << 10;

struct LogRequest {
  int64_t id = 0;  // identifies the request; set by the service
  int rank = 0;
  std::string attempt = {};    // as in the last answer, "" for the first request
  int64_t out = -1, err = -1;  // offsets in that attempt's files to continue from; -1: the last lines
  Requester by = {};
  bool operator==(const LogRequest&) const = default;
  static void Fields(auto& self, auto&& field) {
    field("id", self.id);
    field("rank", self.rank, Range{0, int64_t{kMaxNodes} * kMaxWorkersPerNode});
    field("attempt", self.attempt, Size{0, kMaxText});
    field("out", self.out, Range{-1, INT64_MAX});
    field("err", self.err, Range{-1, INT64_MAX});
    field("by", self.by);
  }
};

struct LogPart {
  int64_t id = 0;
  std::string attempt = {};  // the folder of its files; if it changes, the worker was started again
  std::string out = {}, err = {};
  int64_t out_end = 0, err_end = 0;  // offsets in the files after this part
  bool more = false;                 // true if more output exists already
  std::string error = {};            // the error if there is no output
  bool operator==(const LogPart&) const = default;
  static void Fields(auto& self, auto&& field) {
    field("id", self.id);
    field("attempt", self.attempt, Size{0, kMaxText});
    field("out", self.out, Size{0, kMaxLogBytes, true});
    field("err", self.err, Size{0, kMaxLogBytes, true});
    field("out_end", self.out_end, Range{0, INT64_MAX});
    field("err_end", self.err_end, Range{0, INT64_MAX});
    field("more", self.more);
    field("error", self.error, Size{0, kMaxText});
  }
};

}  // namespace mtrun::rendezvous
