// Decides what follows a transfer: done, another try and when, or failure. Pure; randomness is an argument.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/clock.h"
#include "datasets/packed/data_url.h"

namespace mtrun::datasets {

/// How a transfer ended, as far as decisions need it.
struct TransferEnd {
  enum class Link {
    kOk,          // a complete answer was received
    kBroken,      // no connection, or it broke: network or server may recover
    kUntrusted,   // the server's certificate is not trusted
    kNotWritten,  // this machine could not store the data
  };
  Link link = Link::kOk;
  std::string error = "";                    // in words, if the link is not kOk
  int status = 0;                            // HTTP; 0 if there was no answer
  std::optional<int64_t> wait_seconds = {};  // Retry-After
  std::string location = "";                 // target of a redirect, absolute
  bool operator==(const TransferEnd&) const = default;
};

struct Judgement {
  enum class Kind {
    kDone,
    kAgain,    // after a pause; `text` is the problem to report until then
    kRestart,  // immediately, from the first byte: the stored part does not match the server's file
    kFollow,   // request `TransferEnd::location` instead
    kNever,    // `text` says why and what to do
  };
  Kind kind = Kind::kDone;
  std::string text = "";
  bool operator==(const Judgement&) const = default;
};

/// Consecutive failed tries of one file.
struct Tries {
  int all = 0;
  int missing = 0;  // the latest tries to which the server answered that it has no such file
  /// Counts one more, unless it is a redirect.
  void Count(const TransferEnd& end);
  bool operator==(const Tries&) const = default;
};

/// Returns whether a server that answers this HTTP status may answer otherwise later.
bool MayRecover(int status);

/// `url`: the requested URL, for messages. `missing`: as in Tries, including this one. The first missing
/// answers may be from a set that is being replaced, or from a server that is just restarting. `proven`: the
/// server has served this process before, so another program may be answering in its place for a while.
Judgement JudgeTransfer(const TransferEnd& end, const std::string& url, int missing, bool proven);

/// A transfer ends if it is slower than this for so long. It is tried again, from where it was.
inline constexpr long kLeastBytesASecond = 1024, kSlowSeconds = 15;

/// Notices that a transfer is slow, earlier than it ends. Pure: time and bytes are arguments.
class SlowWatch {
 public:
  explicit SlowWatch(TimePoint begin) : since_(begin) {}
  /// Returns the bytes per second of the last full five seconds if they are fewer than the least, otherwise
  /// nothing. `bytes`: received so far. Call it about once a second.
  std::optional<double> Look(TimePoint now, int64_t bytes);

 private:
  TimePoint since_;
  int64_t bytes_ = 0;           // at that time
  std::optional<double> slow_;  // result for the five seconds before
};

/// Returns the sentence that reports a slow transfer.
std::string SlowText(const std::string& url, double bytes_a_second);

/// Returns the pause before the next try: doubled each time, from 0.1 s to 5 s, then shortened by up to a
/// half (`random` in [0, 1)) to spread clients. Longer if the server asks for it, up to a minute.
Duration PauseBefore(int tries, double random, std::optional<int64_t> wait_seconds);

/// Consecutive copies of a file that did not match its checksum.
struct WrongCopies {
  int whole = 0;    // received from the server as a whole
  int resumed = 0;  // continued from a part on this disk, which may have been damaged there
  /// Returns true if another try would not help.
  bool Hopeless() const { return whole >= 2 || resumed >= 10; }
  bool operator==(const WrongCopies&) const = default;
};

/// Whether to follow a redirect, and with what. Only hosts that the user named are contacted: another host or
/// port only with `others_allowed`, and then without any secret; never from https to http.
struct Redirect {
  bool follow = false;
  bool with_secrets = false;
  std::string why = "";  // why it is not followed
  bool operator==(const Redirect&) const = default;
};
Redirect JudgeRedirect(const DataUrl& from, const std::string& location, int hops, bool others_allowed);

}  // namespace mtrun::datasets
