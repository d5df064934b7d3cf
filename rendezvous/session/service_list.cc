#include "rendezvous/session/service_list.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "rendezvous/client/transport.h"

namespace mtrun::rendezvous {

ServiceList::ServiceList(std::vector<std::string> endpoints, bool insecure, std::string token)
    : endpoints_(std::move(endpoints)), insecure_(insecure), token_(std::move(token)) {}

absl::Status ServiceList::Connect() {
  channels_.resize(endpoints_.size());
  stubs_.resize(endpoints_.size());
  for (size_t place = 0; place < endpoints_.size(); ++place) MT_RETURN_IF_ERROR(ConnectTo(place));
  return absl::OkStatus();
}

void ServiceList::Add(const std::string& endpoint) {
  if (std::find(endpoints_.begin(), endpoints_.end(), endpoint) != endpoints_.end()) return;
  endpoints_.push_back(endpoint);
  channels_.resize(endpoints_.size());
  stubs_.resize(endpoints_.size());
  // The token has worked for the others.
  if (!ConnectTo(endpoints_.size() - 1).ok()) {
    endpoints_.pop_back();
    channels_.pop_back();
    stubs_.pop_back();
  }
}

bool ServiceList::OnRefused(const std::string& endpoint) {
  refusing_.insert(endpoint);
  return std::all_of(endpoints_.begin(), endpoints_.end(),
                     [this](const std::string& one) { return refusing_.contains(one); });
}

void ServiceList::KeepThis() {
  endpoints_ = {endpoints_[place_]};
  channels_ = {channels_[place_]};
  std::unique_ptr<wire::Rendezvous::Stub> stub = std::move(stubs_[place_]);
  stubs_.clear();
  stubs_.push_back(std::move(stub));
  place_ = 0;
}

absl::Status ServiceList::ConnectTo(size_t place) {
  MT_ASSIGN_OR_RETURN(channels_[place], MakeChannel(endpoints_[place], insecure_, token_));
  stubs_[place] = wire::Rendezvous::NewStub(channels_[place]);
  return absl::OkStatus();
}

void ServiceList::Disconnect() {
  stubs_.clear();
  channels_.clear();
}

absl::Status ServiceList::Renew() {
  if (channels_[place_]->GetState(/*try_to_connect=*/false) != GRPC_CHANNEL_READY) return absl::OkStatus();
  return ConnectTo(place_);
}

std::string ServiceList::All() const { return absl::StrJoin(endpoints_, " or "); }

bool ServiceList::MoveTo(const std::string& endpoint) {
  const auto found = std::find(endpoints_.begin(), endpoints_.end(), endpoint);
  if (found == endpoints_.end()) return false;
  place_ = static_cast<size_t>(found - endpoints_.begin());
  return true;
}

}  // namespace mtrun::rendezvous
