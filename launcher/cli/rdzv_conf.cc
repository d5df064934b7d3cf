#include "launcher/cli/rdzv_conf.h"

#include <algorithm>
#include <optional>
#include <variant>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/nearest_name.h"
#include "launcher/cli/options_reading.h"
#include "rendezvous/wire/job_settings.h"

namespace mtrun::launcher {
namespace {

using rendezvous::JobSettings;

/// Checked and ignored: torchrun's times of single store operations. mtrun does not wait for them.
struct IgnoredSeconds {};
/// Ignored if the back-end is etcd; otherwise unknown.
struct OfEtcd {};
/// Seconds for --rdzv_backend static, as join_timeout; otherwise ignored.
struct OfStatic {};
/// Seconds between heartbeats; if given, silence is judged by them whatever the program.
struct KeepAlive {};
/// Seconds above 0, or "never", which is stored as zero.
struct Fence {};
/// "majority" or "any".
struct Takeover {};
/// Only "tcp".
struct StoreType {};

struct ConfKey {
  const char* name;
  std::variant<Duration JobSettings::*, Duration Options::*, int JobSettings::*, bool Options::*,
               std::optional<bool> Options::*, IgnoredSeconds, OfEtcd, OfStatic, KeepAlive, Fence, Takeover,
               StoreType>
      target;
  bool zero_is_fine = false;
};

const std::vector<ConfKey>& ConfKeys() {
  static const std::vector<ConfKey> keys = {
      {"join_timeout", &JobSettings::join_timeout},
      {"last_call_timeout", &JobSettings::last_call, true},
      {"cold_start_wait", &JobSettings::cold_start_wait, true},
      {"keep_alive_interval", KeepAlive{}},
      {"keep_alive_max_attempt", &JobSettings::heartbeats_missed},
      {"read_timeout", &Options::connect_timeout},
      {"reconnect_grace", &JobSettings::reconnect_grace},
      {"reconnect_timeout", &Options::reconnect_timeout, true},
      {"min_nodes_timeout", &JobSettings::min_nodes_timeout, true},
      {"fence_timeout", Fence{}},
      {"timeout", OfStatic{}},
      {"takeover", Takeover{}},
      {"is_host", &Options::is_host},
      {"hold_port", &Options::hold_port},
      {"weak_token", &Options::weak_token},
      {"store_type", StoreType{}},
      {"close_timeout", IgnoredSeconds{}},
      {"heartbeat_timeout", IgnoredSeconds{}},
      {"cas_backoff_max_seconds", IgnoredSeconds{}, true},
      {"protocol", OfEtcd{}},
      {"cert", OfEtcd{}},
      {"key", OfEtcd{}},
      {"cacert", OfEtcd{}},
      {"ssl_cert", OfEtcd{}},
      {"ssl_cert_key", OfEtcd{}},
      {"ca_cert", OfEtcd{}},
      {"etcd_prefix", OfEtcd{}},
  };
  return keys;
}

absl::Status Wrong(absl::string_view key, absl::string_view value, absl::string_view allowed) {
  return absl::InvalidArgumentError(absl::StrCat(key, "=\"", value, "\" is not allowed; it takes ", allowed));
}

/// Reads the value of a key according to the type of its target.
struct ConfReader {
  const ConfKey& key;
  const absl::string_view value;
  const bool fixed;  // the back-end is static
  Options& options;

  absl::Status operator()(Duration JobSettings::*member) const { return Seconds(&(options.job.*member)); }
  absl::Status operator()(Duration Options::*member) const { return Seconds(&(options.*member)); }
  absl::Status operator()(int JobSettings::*member) const {
    int& number = options.job.*member;
    const bool good = absl::SimpleAtoi(value, &number) && number >= 1;
    return good ? absl::OkStatus() : Wrong(key.name, value, "a number from 1");
  }
  absl::Status operator()(bool Options::*member) const { return Truth(&(options.*member)); }
  absl::Status operator()(std::optional<bool> Options::*member) const {
    return Truth(&(options.*member).emplace());
  }
  absl::Status operator()(const IgnoredSeconds&) const {
    Duration unused{};
    return Seconds(&unused);
  }
  absl::Status operator()(const OfEtcd&) const { return absl::OkStatus(); }
  absl::Status operator()(const OfStatic&) const {
    Duration unused{};
    return Seconds(fixed ? &options.job.join_timeout : &unused);
  }
  absl::Status operator()(const KeepAlive&) const {
    const absl::Status read = Seconds(&options.job.heartbeat_interval);
    options.job.ordinary_interval = options.job.heartbeat_interval;
    return read;
  }
  absl::Status operator()(const Fence&) const {
    Duration& duration = options.job.fence_timeout;
    if (value != "never") return Seconds(&duration, "seconds, more than 0, or never");
    duration = Duration::zero();
    return absl::OkStatus();
  }
  absl::Status operator()(const Takeover&) const {
    options.job.takeover_majority = value == "majority";
    options.job.takeover_any = value == "any";
    const bool known = options.job.takeover_majority || options.job.takeover_any;
    return known ? absl::OkStatus() : Wrong(key.name, value, "majority or any");
  }
  absl::Status operator()(const StoreType&) const {
    if (value == "tcp") return absl::OkStatus();
    return Wrong(key.name, value,
                 "tcp: the nodes find each other over the network; use --rdzv_backend c10d --rdzv_endpoint "
                 "HOST:29400, where HOST is one of the nodes");
  }

  absl::Status Seconds(Duration* seconds, const char* allowed = nullptr) const {
    double number = 0;
    if (!absl::SimpleAtod(value, &number) || !(number >= 0 && number <= kMaxSeconds) ||
        (number == 0 && !key.zero_is_fine))
      return Wrong(key.name, value,
                   allowed != nullptr ? allowed
                   : key.zero_is_fine ? "seconds, 0 or more"
                                      : "seconds, more than 0");
    *seconds = FromSeconds(number);
    return absl::OkStatus();
  }
  absl::Status Truth(bool* truth) const {
    return absl::SimpleAtob(value, truth) ? absl::OkStatus() : Wrong(key.name, value, "true or false");
  }
};

bool HasEffect(const ConfKey& key) {
  return !std::holds_alternative<IgnoredSeconds>(key.target) && !std::holds_alternative<OfEtcd>(key.target);
}

}  // namespace

absl::Status ReadConfPair(absl::string_view name, absl::string_view value, bool fixed, Options* options) {
  std::vector<std::string> names;
  for (const ConfKey& key : ConfKeys()) {
    const bool known = !std::holds_alternative<OfEtcd>(key.target) || options->may_be_etcd;
    if (known && key.name == name) return std::visit(ConfReader{key, value, fixed, *options}, key.target);
    if (HasEffect(key)) names.push_back(key.name);
  }
  std::sort(names.begin(), names.end());
  const std::string near = NearestName({name.data(), name.size()}, names);
  // torchrun accepts them too: its back-ends have keys of their own.
  options->notes.push_back(absl::StrCat("--rdzv_conf: unknown key \"", name,
                                        "\" has no effect (keys: ", absl::StrJoin(names, ", "), ")",
                                        near.empty() ? "" : "; did you mean " + near + "?"));
  return absl::OkStatus();
}

std::string ConfHelp() {
  std::vector<std::string> seconds, others;
  for (const ConfKey& key : ConfKeys()) {
    if (std::holds_alternative<Duration JobSettings::*>(key.target) ||
        std::holds_alternative<KeepAlive>(key.target) ||
        std::holds_alternative<Duration Options::*>(key.target)) {
      seconds.push_back(key.name);
    } else if (std::holds_alternative<Fence>(key.target)) {
      others.push_back(absl::StrCat(key.name, " (seconds, never)"));
    } else if (std::holds_alternative<Takeover>(key.target)) {
      others.push_back(absl::StrCat(key.name, " (majority, any)"));
    } else if (HasEffect(key) && !std::holds_alternative<OfStatic>(key.target) &&
               !std::holds_alternative<StoreType>(key.target)) {
      others.push_back(key.name);
    }
  }
  return absl::StrCat("Settings of the rendezvous: ", absl::StrJoin(seconds, ", "), " (seconds), ",
                      absl::StrJoin(others, ", "), ".");
}

}  // namespace mtrun::launcher
