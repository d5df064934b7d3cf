// A look at what a worker has written (mtrun --logs): the question that the service passes on to the node of
// that rank, and the answer. Values.
#pragma once

#include <cstdint>
#include <string>

#include "rendezvous/control_call.h"
#include "rendezvous/fields.h"

namespace mtrun::rendezvous {

/// Of each stream in one answer.
inline constexpr size_t kMaxLogBytes = 32 << 10;

struct LogRequest {
  int64_t id = 0;  // of the question, made by the service
  int rank = 0;
  std::string attempt = {};    // of the last answer, "" for the first question
  int64_t out = -1, err = -1;  // where to go on in that attempt's files; -1: their last lines
  Requester by = {};
  bool operator==(const LogRequest&) const = default;
  template <typename Self, typename Field>
  static void Fields(Self& self, Field&& field) {
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
  std::string attempt = {};  // the folder of its files; another one: the worker was started again
  std::string out = {}, err = {};
  int64_t out_end = 0, err_end = 0;  // where that ends in the files
  bool more = false;                 // there is more already
  std::string error = {};            // why there is nothing
  bool operator==(const LogPart&) const = default;
  template <typename Self, typename Field>
  static void Fields(Self& self, Field&& field) {
    field("id", self.id);
    field("attempt", self.attempt, Size{0, kMaxText});
    field("out", self.out, Size{0, kMaxLogBytes});
    field("err", self.err, Size{0, kMaxLogBytes});
    field("out_end", self.out_end, Range{0, INT64_MAX});
    field("err_end", self.err_end, Range{0, INT64_MAX});
    field("more", self.more);
    field("error", self.error, Size{0, kMaxText});
  }
};

}  // namespace mtrun::rendezvous
