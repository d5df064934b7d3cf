// What becomes of one transfer: done, another try and when, or never. Pure; the random share is an argument.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/clock.h"
#include "datasets/data_url.h"

namespace mtrun::datasets {

/// How a transfer ended, as far as decisions need it.
struct TransferEnd {
  enum class Link {
    kOk,          // there is an answer, and all of it has come
    kBroken,      // no connection, or it broke: the network or the server may come back
    kUntrusted,   // the server's certificate is not one that is trusted
    kNotWritten,  // this machine could not keep what came
  };
  Link link = Link::kOk;
  std::string error = "";                    // in words, where the link is not kOk
  int status = 0;                            // HTTP; 0 when there was no answer
  std::optional<int64_t> wait_seconds = {};  // Retry-After
  std::string location = "";                 // of a redirect, absolute
  bool operator==(const TransferEnd&) const = default;
};

struct Judgement {
  enum class Kind {
    kDone,
    kAgain,    // after a pause; `text` says what is wrong meanwhile
    kRestart,  // at once and from the first byte: what was kept of it is not the server's
    kFollow,   // ask at `TransferEnd::location` instead
    kNever,    // `text` says why and what to do
  };
  Kind kind = Kind::kDone;
  std::string text = "";
  bool operator==(const Judgement&) const = default;
};

/// Of one file, in a row and in vain.
struct Tries {
  int all = 0;
  int missing = 0;  // the last ones of them, to which the server said that it has no such file
  /// One more. A redirect is none yet.
  void Count(const TransferEnd& end);
  bool operator==(const Tries&) const = default;
};

/// `url`: what was asked for, for the texts. `missing`: as in Tries, with this one. The first ones may be of
/// a set that is being replaced, or of a server that has just come back. `proven`: it has served this process
/// before, and somebody else may answer in its place for a while.
Judgement JudgeTransfer(const TransferEnd& end, const std::string& url, int missing, bool proven);

/// Before the next try: twice as long each time, from a tenth of a second to 5 s, less up to a half of it
/// (`random` in [0, 1)), so that many clients do not come together; longer where the server asks for it, but
/// never more than a minute.
Duration PauseBefore(int tries, double random, std::optional<int64_t> wait_seconds);

/// Copies of a file that had other bytes than its checksum, in a row.
struct WrongCopies {
  int whole = 0;    // as the server has sent them
  int resumed = 0;  // gone on with from what lay on this disk, and may have been damaged there
  /// The next one will be no other.
  bool Hopeless() const { return whole >= 2 || resumed >= 10; }
  bool operator==(const WrongCopies&) const = default;
};

/// Whether a redirect may be followed, and with what. Only names that the user gave are asked: another host
/// or port only with `others_allowed`, and then without any secret; never from https to http.
struct Redirect {
  bool follow = false;
  bool with_secrets = false;
  std::string why = "";  // not followed
  bool operator==(const Redirect&) const = default;
};
Redirect JudgeRedirect(const DataUrl& from, const std::string& location, int hops, bool others_allowed);

}  // namespace mtrun::datasets
