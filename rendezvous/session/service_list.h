// The services that an agent may try, each with its own channel, and the current one. Not thread-safe.
#pragma once

#include <grpcpp/grpcpp.h>

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "rendezvous/wire/rendezvous.grpc.pb.h"

namespace mtrun::rendezvous {

class ServiceList {
 public:
  /// `endpoints`: at least one, in the order in which they are tried.
  ServiceList(std::vector<std::string> endpoints, bool insecure, std::string token);

  /// Makes all channels. An error is due to the token.
  absl::Status Connect();
  /// Drops all channels.
  void Disconnect();
  /// Makes a new channel for the next attempt. A connection that is open but silent may be dead (a cable was
  /// out); TCP then retries ever more seldom, even minutes after the cable is back.
  absl::Status Renew();

  /// Appends a service unless it is in the list.
  void Add(const std::string& endpoint);

  /// Notes that the service there refuses this node. Returns true after all of the list have refused.
  bool OnRefused(const std::string& endpoint);

  /// Drops all but the current one: while that one may be alive, no other service may get its nodes.
  void KeepThis();

  size_t size() const { return endpoints_.size(); }
  const std::string& Where() const { return endpoints_[place_]; }
  /// Returns a text for messages: "node1:29400 or node2:29400".
  std::string All() const;
  void MoveOn() { place_ = (place_ + 1) % endpoints_.size(); }
  /// Returns false, and changes nothing, if the endpoint is not in the list.
  bool MoveTo(const std::string& endpoint);
  /// The stub of the current service.
  wire::Rendezvous::Stub& stub() { return *stubs_[place_]; }

 private:
  absl::Status ConnectTo(size_t place);

  std::vector<std::string> endpoints_;
  const bool insecure_;
  const std::string token_;
  std::vector<std::shared_ptr<grpc::Channel>> channels_;  // in the order of endpoints_
  std::vector<std::unique_ptr<wire::Rendezvous::Stub>> stubs_;
  std::set<std::string> refusing_;
  size_t place_ = 0;
};

}  // namespace mtrun::rendezvous
