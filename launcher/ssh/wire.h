// What the two ends of an ssh connection say to each other (docs/protocol.md, "Over ssh"). The mtrun on the
// host greets on its standard output, among whatever the shell there prints; on its standard input come the
// order, signals, and a beat every few seconds. Then the job's output follows the greeting, and how the mtrun
// ended follows the output. Pure.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/clock.h"
#include "base/worker_env.h"
#include "launcher/cli/derived_setting.h"

namespace mtrun::launcher {

/// A network that is cut takes no connection down by itself: the host hears a beat so often, and takes the
/// connection for lost after such a silence.
inline constexpr Duration kBeatInterval = std::chrono::seconds(5), kLongestSilence = std::chrono::seconds(30);

struct Greeting {
  std::string version = {};  // of the mtrun there
  std::string host = {};     // its own name
  std::string address = {};  // at which ssh reached it; "": unknown
  bool operator==(const Greeting&) const = default;
};

/// What an mtrun on a host is to do. Any bytes but zeros in texts.
struct Order {
  std::string token;   // "": none is needed
  std::string nonce;   // random: stands in the end, so that no output is taken for it
  std::string folder;  // in which it runs
  EnvironmentMap environment;
  std::vector<std::string> args;         // as the user gave them to the mtrun that starts the others
  std::vector<DerivedSetting> settings;  // instead of what stands in `args`
  bool operator==(const Order&) const = default;
};

std::string Encode(const Greeting& greeting);
std::string Encode(const Order& order);
std::string EncodeSignal(int signal);
std::string EncodeBeat();
/// Behind all output. `nonce`: the order's.
std::string EncodeEnd(int status, std::string_view nonce);

/// kInvalidArgument for what Encode has not made.
absl::StatusOr<Order> DecodeOrder(std::string_view payload);

/// The standard input of the mtrun on the host.
class HostInput {
 public:
  static constexpr size_t kMostOrderBytes = 16 << 20;
  struct Beat {
    bool operator==(const Beat&) const = default;
  };
  struct Signal {
    int number = 0;
    bool operator==(const Signal&) const = default;
  };
  using Message = std::variant<Beat, Signal, Order>;

  void Append(std::string_view bytes) { pending_ += bytes; }
  /// The next message, nothing while it is not complete. kInvalidArgument: the other end is no mtrun.
  absl::StatusOr<std::optional<Message>> Next();

 private:
  std::string pending_;
};

/// The standard output of the ssh that reaches a host.
class HostOutput {
 public:
  struct Piece {
    std::optional<Greeting> greeting;
    std::string output;             // of the job, behind the greeting
    std::optional<int> end_status;  // nothing comes behind it
    bool operator==(const Piece&) const = default;
  };
  /// `nonce`: of the order that this host gets.
  explicit HostOutput(std::string nonce = "");
  const std::string& nonce() const { return nonce_; }
  Piece Feed(std::string_view bytes);
  /// What was held back when the stream ended.
  std::string Flush();

 private:
  std::optional<Greeting> TakeGreeting();
  void TakeOutput(Piece* piece);

  std::string nonce_;
  std::string end_;  // what EncodeEnd begins with
  bool greeted_ = false;
  std::string pending_;
};

}  // namespace mtrun::launcher
