// Protocol between the two ends of an ssh connection (docs/protocol.md, "Over ssh"). The mtrun on the host
// writes a greeting to its standard output, among any output of the shell. Its standard input carries the
// order, signals, and a beat every few seconds. The job's output follows the greeting, and the mtrun's exit
// status follows the output. Pure.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "base/clock.h"
#include "base/worker_env.h"
#include "launcher/cli/derived_setting.h"

namespace mtrun::launcher {

/// TCP does not notice a cut network by itself: the host receives a beat at this interval, and considers the
/// connection lost after this silence.
inline constexpr Duration kBeatInterval = std::chrono::seconds(5), kMaxSilence = std::chrono::seconds(30);

struct Greeting {
  std::string version = {};  // mtrun's version there
  std::string host = {};     // host name there
  std::string address = {};  // address that ssh used; "": unknown
  bool operator==(const Greeting&) const = default;
};

/// The start command for the mtrun on a host. Texts may contain any bytes except zeros.
struct Order {
  std::string token;   // "": not needed
  std::string nonce;   // random; marks the end, so that output is not mistaken for it
  std::string folder;  // working folder
  EnvironmentMap environment;
  std::vector<std::string> args;         // the user's arguments to the starting mtrun
  std::vector<DerivedSetting> settings;  // override those in `args`
  bool operator==(const Order&) const = default;
};

std::string Encode(const Greeting& greeting);
std::string Encode(const Order& order);
std::string EncodeSignal(int signal);
std::string EncodeBeat();
/// Encodes the message after all output. `nonce`: the order's.
std::string EncodeEnd(int status, std::string_view nonce);

/// kInvalidArgument if Encode has not made it.
absl::StatusOr<Order> DecodeOrder(std::string_view payload);

/// Parser of the standard input of the mtrun on the host.
class HostInput {
 public:
  static constexpr size_t kMaxOrderBytes = 16 << 20;
  struct Beat {
    bool operator==(const Beat&) const = default;
  };
  struct Signal {
    int number = 0;
    bool operator==(const Signal&) const = default;
  };
  using Message = std::variant<Beat, Signal, Order>;

  void Append(std::string_view bytes) { pending_ += bytes; }
  /// Returns the next message; nullopt if it is incomplete. kInvalidArgument: the peer is not an mtrun.
  absl::StatusOr<std::optional<Message>> Next();

 private:
  std::string pending_;
};

/// Parser of the standard output of the ssh to a host.
class HostOutput {
 public:
  struct Piece {
    std::optional<Greeting> greeting;
    std::string output;             // the job's, after the greeting
    std::optional<int> end_status;  // nothing follows it
    bool operator==(const Piece&) const = default;
  };
  /// `nonce`: from the order for this host.
  explicit HostOutput(std::string nonce = "");
  const std::string& nonce() const { return nonce_; }
  Piece Feed(std::string_view bytes);
  /// Returns the bytes held back when the stream ended.
  std::string Flush();

 private:
  std::optional<Greeting> TakeGreeting();
  void TakeOutput(Piece* piece);

  std::string nonce_;
  std::string end_;  // prefix of EncodeEnd's result
  bool greeted_ = false;
  std::string pending_;
};

}  // namespace mtrun::launcher
