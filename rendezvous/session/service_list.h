// The services that an agent may try, each behind a channel of its own, and the one that it is at. Not
// thread-safe.
#pragma once

#include <grpcpp/grpcpp.h>

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "rendezvous/rendezvous.grpc.pb.h"

namespace mtrun::rendezvous {

class ServiceList {
 public:
  /// `endpoints`: one at least, in the order in which they are tried.
  ServiceList(std::vector<std::string> endpoints, bool insecure, std::string token);

  /// Makes all channels; an error is the token's.
  absl::Status Connect();
  /// Drops them.
  void Disconnect();
  /// A connection that is there, and nothing comes on it, may be dead without a word (a cable was out), and
  /// TCP tries such a one ever more seldom, for minutes after the cable is back: the next attempt gets a new
  /// one.
  absl::Status Renew();

  /// One more, at the end; nothing where it is in the list.
  void Add(const std::string& endpoint);

  /// The one there will not have this node; true once all of the list have said so.
  bool OnRefused(const std::string& endpoint);

  /// Nobody but the one that it is at: while that may be alive no other one may get its nodes.
  void KeepThis();

  size_t size() const { return endpoints_.size(); }
  const std::string& Where() const { return endpoints_[place_]; }
  /// For messages: "node1:29400 or node2:29400".
  std::string All() const;
  void MoveOn() { place_ = (place_ + 1) % endpoints_.size(); }
  /// False, and stays, when the endpoint is none of the list.
  bool MoveTo(const std::string& endpoint);
  /// Of the service that it is at.
  wire::Rendezvous::Stub& stub() { return *stubs_[place_]; }

 private:
  absl::Status ConnectTo(size_t place);

  std::vector<std::string> endpoints_;
  const bool insecure_;
  const std::string token_;
  std::vector<std::shared_ptr<grpc::Channel>> channels_;  // as endpoints_, and so
  std::vector<std::unique_ptr<wire::Rendezvous::Stub>> stubs_;
  std::set<std::string> refusing_;
  size_t place_ = 0;
};

}  // namespace mtrun::rendezvous
