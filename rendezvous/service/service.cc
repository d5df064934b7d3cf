#include "rendezvous/service/service.h"

#include <sys/prctl.h>

#include <asio/executor_work_guard.hpp>
#include <asio/io_context.hpp>
#include <asio/post.hpp>
#include <climits>
#include <future>
#include <thread>
#include <utility>

#include "base/endpoint.h"
#include "base/status_macros.h"
#include "rendezvous/client/transport.h"
#include "rendezvous/service/acceptor.h"
#include "rendezvous/service/listen_addresses.h"
#include "rendezvous/service/measure_call.h"
#include "rendezvous/service/registrar.h"
#include "rendezvous/service/socket_peer.h"
#include "rendezvous/wire/codec.h"
#include "rendezvous/wire/rendezvous.grpc.pb.h"

namespace mtrun::rendezvous {
namespace {

/// Session carries bytes, because many of them are sent the same (outgoing.h).
using CallbackService = wire::Rendezvous::WithRawCallbackMethod_Session<
    wire::Rendezvous::WithCallbackMethod_Status<wire::Rendezvous::WithCallbackMethod_Identify<
        wire::Rendezvous::WithCallbackMethod_Evict<wire::Rendezvous::WithCallbackMethod_Drain<
            wire::Rendezvous::WithCallbackMethod_Stop<wire::Rendezvous::WithCallbackMethod_Stacks<
                wire::Rendezvous::WithCallbackMethod_Watch<wire::Rendezvous::WithCallbackMethod_Logs<
                    wire::Rendezvous::WithCallbackMethod_Measure<wire::Rendezvous::Service>>>>>>>>>>;

/// The gRPC interface: posts to the loop and returns.
class Rpc final : public CallbackService {
 public:
  Rpc(asio::io_context& loop, asio::io_context& calls, Registrar& registrar, uint64_t id)
      : loop_(loop), calls_(calls), registrar_(registrar), id_(id) {}

  /// Call before the first request.
  void SetAcceptor(Acceptor* acceptor) { acceptor_ = acceptor; }

  grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>* Session(
      grpc::CallbackServerContext* context) override {
    acceptor_->OnCall(context->peer());
    return ServerStream::Make(loop_, calls_, registrar_, *context);
  }
  grpc::ServerUnaryReactor* Status(grpc::CallbackServerContext* context, const wire::StatusRequest* request,
                                   wire::StatusReply* reply) override {
    if (request->until_end()) return AwaitEnd(context, reply);
    return Decide(context,
                  [this, reply, job_id = request->job_id(), asks = DecodeAsking(*request)](auto* reactor) {
                    registrar_.OnPeerStatus(job_id, asks);
                    registrar_.FillStatus(*reply);
                    reactor->Finish(grpc::Status::OK);
                  });
  }
  grpc::ServerUnaryReactor* Evict(grpc::CallbackServerContext* context, const wire::ControlRequest* request,
                                  wire::ControlReply* reply) override {
    return Control(EvictCall(), context, request, reply);
  }
  grpc::ServerUnaryReactor* Drain(grpc::CallbackServerContext* context, const wire::ControlRequest* request,
                                  wire::ControlReply* reply) override {
    return Control(DrainCall(), context, request, reply);
  }
  grpc::ServerUnaryReactor* Stop(grpc::CallbackServerContext* context, const wire::ControlRequest* request,
                                 wire::ControlReply* reply) override {
    return Control(StopCall(), context, request, reply);
  }
  grpc::ServerUnaryReactor* Stacks(grpc::CallbackServerContext* context, const wire::ControlRequest* request,
                                   wire::ControlReply* reply) override {
    return Control(StacksCall(), context, request, reply);
  }
  grpc::ServerUnaryReactor* Watch(grpc::CallbackServerContext* context, const wire::WatchRequest*,
                                  wire::WatchReply* reply) override {
    return Decide(context, [this, reply](auto* reactor) {
      registrar_.Watch(*reply);
      reactor->Finish(grpc::Status::OK);
    });
  }
  grpc::ServerUnaryReactor* Logs(grpc::CallbackServerContext* context, const wire::LogsRequest* request,
                                 wire::LogsReply* reply) override {
    return Decide(context, [this, request, reply, address = PlainPeer(context->peer())](auto* reactor) {
      registrar_.Logs(address, *request, *reply, [reactor, reply](const LogPart& part) {
        *reply->mutable_part() = EncodeLogPart(part);
        reactor->Finish(grpc::Status::OK);
      });
    });
  }
  grpc::ServerReadReactor<wire::MeasurePart>* Measure(grpc::CallbackServerContext* context,
                                                      wire::MeasureReply* reply) override {
    acceptor_->OnCall(context->peer());
    return MeasureCall::Make(measure_slot_, *reply);
  }
  grpc::ServerUnaryReactor* Identify(grpc::CallbackServerContext* context, const wire::IdentifyRequest*,
                                     wire::IdentifyReply* reply) override {
    acceptor_->OnCall(context->peer());
    reply->set_service_id(id_);
    grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
    reactor->Finish(grpc::Status::OK);
    return reactor;
  }

 private:
  /// Runs `answer(reactor)` on the loop's thread; the call and its context end when it finishes the reactor.
  template <typename Answer>
  grpc::ServerUnaryReactor* Decide(grpc::CallbackServerContext* context, Answer answer) {
    acceptor_->OnCall(context->peer());
    grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
    asio::post(loop_, [reactor, answer = std::move(answer)] { answer(reactor); });
    return reactor;
  }
  grpc::ServerUnaryReactor* AwaitEnd(grpc::CallbackServerContext* context, wire::StatusReply* reply) {
    return Decide(context, [this, context, reply](auto* reactor) {
      const auto done = [this, reactor, reply](bool ended) {
        if (ended) registrar_.FillStatus(*reply);
        reactor->Finish(ended ? grpc::Status::OK
                              : grpc::Status(grpc::StatusCode::UNAVAILABLE, "the end is not awaited here"));
      };
      registrar_.AwaitEnd({[context] { return context->IsCancelled(); }, done});
    });
  }
  grpc::ServerUnaryReactor* Control(const ControlKind& what, grpc::CallbackServerContext* context,
                                    const wire::ControlRequest* request, wire::ControlReply* reply) {
    return Decide(context, [this, what, request, reply, address = PlainPeer(context->peer())](auto* reactor) {
      registrar_.Control(what, address, *request, *reply);
      reactor->Finish(grpc::Status::OK);
    });
  }

  asio::io_context &loop_, &calls_;
  Registrar& registrar_;
  const uint64_t id_;
  MeasureSlot measure_slot_;
  Acceptor* acceptor_ = nullptr;
};

class GrpcService final : public Service {
 public:
  explicit GrpcService(const ServiceOptions& options)
      : options_(options),
        id_(RandomBits()),
        work_(loop_.get_executor()),
        calls_work_(calls_.get_executor()),
        registrar_(loop_, id_, options),
        rpc_(loop_, calls_, registrar_, id_) {}

  absl::Status Listen() {
    PrepareGrpc();
    MT_ASSIGN_OR_RETURN(const auto credentials, MakeServerCredentials(options_.insecure, options_.token));
    MT_ASSIGN_OR_RETURN(const Endpoint listen, ParseEndpoint(options_.listen));
    MT_ASSIGN_OR_RETURN(const std::vector<Endpoint> addresses, ListenAddresses(listen, ResolveHost, IsOwn));
    MT_ASSIGN_OR_RETURN(acceptor_, Acceptor::Listen(addresses, /*quiet=*/options_.insecure));
    rpc_.SetAcceptor(acceptor_.get());
    grpc::ServerBuilder builder;
    Acceptor::Receiver receiver = builder.experimental().AddExternalConnectionAcceptor(
        grpc::ServerBuilder::experimental_type::ExternalConnectionType::FROM_FD, credentials);
    // On this machine a dead agent's connection ends by itself; see MakeChannel about timers.
    const bool local = AreLoopback(addresses);
    builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, local ? INT_MAX : 10000);
    builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 5000);
    builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
    builder.AddChannelArgument(GRPC_ARG_HTTP2_BDP_PROBE, 0);
    builder.SetMaxReceiveMessageSize(kMaxMessageBytes);
    builder.SetMaxSendMessageSize(kMaxMessageBytes);
    builder.RegisterService(&rpc_);
    server_ = builder.BuildAndStart();
    MT_CHECK(server_ != nullptr);
    registrar_.Begin(port());
    thread_ = std::thread([this] {
      prctl(PR_SET_NAME, "mt-deciding");  // tools/bench/rendezvous finds it by name
      loop_.run();
    });
    calls_thread_ = std::thread([this] { calls_.run(); });
    acceptor_->Begin(std::move(receiver), options_.foreign_connections);
    return absl::OkStatus();
  }

  ~GrpcService() override {
    if (server_) {
      AwaitQuiet();
      acceptor_->Stop();
      // Cancels every call. Their ends are handled on the loop, so it still runs.
      server_->Shutdown(std::chrono::system_clock::now());
      server_->Wait();
    }
    loop_.stop();
    if (thread_.joinable()) thread_.join();
    calls_.stop();
    if (calls_thread_.joinable()) calls_thread_.join();
  }

  int port() const override { return acceptor_->port(); }
  uint64_t id() const override { return id_; }
  std::vector<std::string> NodesWithoutOutcome() override {
    const auto untold = std::make_shared<std::promise<std::vector<std::string>>>();
    asio::post(loop_, [this, untold] { untold->set_value(registrar_.NodesWithoutOutcome()); });
    return untold->get_future().get();
  }
  void AdoptMembership(const std::string& job_id, const Assignment& last) override {
    asio::post(loop_, [this, job_id, last] { registrar_.AdoptMembership(job_id, last); });
  }

 private:
  void AwaitQuiet() {
    const auto quiet = std::make_shared<std::promise<void>>();
    asio::post(loop_, [this, quiet] { registrar_.WhenQuiet([quiet] { quiet->set_value(); }); });
    quiet->get_future().wait_for(options_.flush_timeout);
  }

  const ServiceOptions options_;
  const uint64_t id_;
  asio::io_context loop_{1}, calls_{1};
  asio::executor_work_guard<asio::io_context::executor_type> work_, calls_work_;
  Registrar registrar_;
  Rpc rpc_;
  std::thread thread_, calls_thread_;
  std::unique_ptr<Acceptor> acceptor_;  // calls in progress pass it their peers
  std::unique_ptr<grpc::Server> server_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Service>> Service::Start(const ServiceOptions& options) {
  auto service = std::make_unique<GrpcService>(options);
  MT_RETURN_IF_ERROR(service->Listen());
  return service;
}

}  // namespace mtrun::rendezvous
