#include "rendezvous/client/watch_client.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "rendezvous/client/service_trail.h"
#include "rendezvous/client/unary_call.h"
#include "rendezvous/wire/codec.h"

namespace mtrun::rendezvous {
namespace {

constexpr Duration kPatience = std::chrono::seconds(2);

WatchedState Decode(const wire::WatchReply& reply) {
  WatchedState state;
  state.status = DecodeStatus(reply.status());
  for (const wire::WatchedNode& node : reply.nodes()) state.nodes.push_back(DecodeWatchedNode(node));
  for (const wire::Happening& happening : reply.happenings())
    state.happenings.push_back(DecodeHappening(happening));
  for (int i = 0; i < std::min(reply.ended_size(), reply.ended_age_ns_size()); ++i)
    state.ended.emplace_back(DecodeJobView(reply.ended(i)), Duration(reply.ended_age_ns(i)));
  return state;
}

}  // namespace

struct WatchClient::Channel {
  std::string endpoint;
  std::shared_ptr<grpc::Channel> channel;
};

WatchClient::WatchClient(bool insecure, std::string token) : insecure_(insecure), token_(std::move(token)) {}
WatchClient::~WatchClient() = default;

absl::StatusOr<WatchedState> WatchClient::Ask(const std::vector<std::string>& endpoints) {
  absl::StatusOr<WatchedState> best = absl::UnavailableError("no rendezvous service is known");
  std::vector<std::string> order = endpoints;
  if (channel_) {
    std::erase(order, channel_->endpoint);
    order.insert(order.begin(), channel_->endpoint);
  }
  ServiceTrail trail(order);
  for (std::string endpoint = trail.Next(); !endpoint.empty(); endpoint = trail.Next()) {
    absl::StatusOr<WatchedState> state = AskOne(endpoint);
    if (state.ok() && !state->status.jobs.empty()) return state;
    if (state.ok()) {
      for (const auto& [job_id, place] : state->status.elsewhere) trail.Follow(endpoint, place);
    }
    if (state.ok() || !best.ok()) best = std::move(state);
  }
  return best;
}

absl::StatusOr<WatchedState> WatchClient::AskOne(const std::string& endpoint) {
  if (!channel_ || channel_->endpoint != endpoint) {
    MT_ASSIGN_OR_RETURN(auto channel, MakeChannel(endpoint, insecure_, token_));
    channel_ = std::make_unique<Channel>(Channel{endpoint, std::move(channel)});
  }
  const auto stub = wire::Rendezvous::NewStub(channel_->channel);
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() +
                       std::chrono::duration_cast<std::chrono::microseconds>(kPatience));
  wire::WatchReply reply;
  const grpc::Status status = stub->Watch(&context, {}, &reply);
  if (status.ok()) return Decode(reply);
  MT_RETURN_IF_ERROR(JudgeCredentials(endpoint, status, insecure_));
  return absl::UnavailableError(
      absl::StrCat("no rendezvous service answers at ", endpoint, ": ", WhyUnreachable(status)));
}

}  // namespace mtrun::rendezvous
