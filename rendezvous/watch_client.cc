#include "rendezvous/watch_client.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "rendezvous/codec.h"
#include "rendezvous/unary_call.h"

namespace mtrun::rendezvous {
namespace {

constexpr Duration kPatience = std::chrono::seconds(2);

WatchedState Decode(const wire::WatchReply& reply) {
  WatchedState state;
  state.status.uptime = Duration(reply.status().uptime_ns());
  for (const wire::JobStatus& job : reply.status().jobs()) state.status.jobs.push_back(DecodeJobView(job));
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
    std::stable_partition(order.begin(), order.end(),
                          [&](const std::string& endpoint) { return endpoint == channel_->endpoint; });
  }
  for (const std::string& endpoint : order) {
    absl::StatusOr<WatchedState> state = AskOne(endpoint);
    if (state.ok() && !state->status.jobs.empty()) return state;
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
