#include "rendezvous/service/service.h"

#include <asio/executor_work_guard.hpp>
#include <asio/io_context.hpp>
#include <asio/post.hpp>
#include <climits>
#include <future>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/endpoint.h"
#include "base/posix.h"
#include "base/status_macros.h"
#include "rendezvous/codec.h"
#include "rendezvous/rendezvous.grpc.pb.h"
#include "rendezvous/service/listen_addresses.h"
#include "rendezvous/service/registrar.h"
#include "rendezvous/transport.h"

namespace mtrun::rendezvous {
namespace {

/// gRPC's face: posts to the loop and returns.
class Rpc final : public wire::Rendezvous::CallbackService {
 public:
  Rpc(asio::io_context& loop, Registrar& registrar, uint64_t id)
      : loop_(loop), registrar_(registrar), id_(id) {}

  grpc::ServerBidiReactor<wire::AgentMessage, wire::ServiceMessage>* Session(
      grpc::CallbackServerContext* context) override {
    return ServerStream::Make(loop_, registrar_, *context);
  }
  grpc::ServerUnaryReactor* Status(grpc::CallbackServerContext* context, const wire::StatusRequest* request,
                                   wire::StatusReply* reply) override {
    grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
    asio::post(loop_, [this, reactor, reply, job_id = request->job_id(), asks = DecodeAsking(*request)] {
      registrar_.Hear(job_id, asks);
      registrar_.FillStatus(*reply);
      reactor->Finish(grpc::Status::OK);
    });
    return reactor;
  }
  grpc::ServerUnaryReactor* Evict(grpc::CallbackServerContext* context, const wire::EvictRequest* request,
                                  wire::EvictReply* reply) override {
    grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
    asio::post(loop_, [this, reactor, request, reply] {
      registrar_.Evict(*request, *reply);
      reactor->Finish(grpc::Status::OK);
    });
    return reactor;
  }
  grpc::ServerUnaryReactor* Identify(grpc::CallbackServerContext* context, const wire::IdentifyRequest*,
                                     wire::IdentifyReply* reply) override {
    reply->set_service_id(id_);
    grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
    reactor->Finish(grpc::Status::OK);
    return reactor;
  }

 private:
  asio::io_context& loop_;
  Registrar& registrar_;
  const uint64_t id_;
};

class GrpcService final : public Service {
 public:
  explicit GrpcService(const ServiceOptions& options)
      : options_(options),
        id_(RandomBits()),
        work_(loop_.get_executor()),
        registrar_(loop_, id_, options),
        rpc_(loop_, registrar_, id_) {}

  absl::Status Listen() {
    QuietGrpcLog();
    MT_ASSIGN_OR_RETURN(const auto credentials, MakeServerCredentials(options_.insecure, options_.token));
    MT_ASSIGN_OR_RETURN(const Endpoint listen, ParseEndpoint(options_.listen));
    MT_ASSIGN_OR_RETURN(
        const std::vector<Endpoint> addresses,
        ListenAddresses(listen, options_.insecure && !options_.insecure_anywhere, ResolveHost, IsOwn));
    grpc::ServerBuilder builder;
    for (const Endpoint& address : addresses) builder.AddListeningPort(ToText(address), credentials, &port_);
    builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT,
                               0);  // otherwise two services share a port without knowing
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
    const bool listens = server_ && port_ != 0;
    if (listens) registrar_.Begin(port_);
    thread_ = std::thread([this] { loop_.run(); });  // what has come by now waits for it
    if (listens) return absl::OkStatus();
    return absl::AlreadyExistsError(absl::StrCat("cannot listen on ", options_.listen,
                                                 ": the port is in use, or the address is not "
                                                 "one of this machine"));
  }

  ~GrpcService() override {
    if (server_) {
      AwaitQuiet();
      // Cancels every call; their ends are handled on the loop, which therefore still runs.
      server_->Shutdown(std::chrono::system_clock::now());
      server_->Wait();
    }
    work_.reset();
    loop_.stop();
    if (thread_.joinable()) thread_.join();
  }

  int port() const override { return port_; }
  uint64_t id() const override { return id_; }
  std::vector<std::string> Untold() override {
    const auto untold = std::make_shared<std::promise<std::vector<std::string>>>();
    asio::post(loop_, [this, untold] { untold->set_value(registrar_.Untold()); });
    return untold->get_future().get();
  }

 private:
  void AwaitQuiet() {
    const auto quiet = std::make_shared<std::promise<void>>();
    asio::post(loop_, [this, quiet] { registrar_.WhenQuiet([quiet] { quiet->set_value(); }); });
    quiet->get_future().wait_for(options_.flush_timeout);
  }

  const ServiceOptions options_;
  const uint64_t id_;
  int port_ = 0;
  asio::io_context loop_{1};
  asio::executor_work_guard<asio::io_context::executor_type> work_;
  Registrar registrar_;
  Rpc rpc_;
  std::thread thread_;
  std::unique_ptr<grpc::Server> server_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Service>> Service::Start(const ServiceOptions& options) {
  auto service = std::make_unique<GrpcService>(options);
  MT_RETURN_IF_ERROR(service->Listen());
  return service;
}

}  // namespace mtrun::rendezvous
