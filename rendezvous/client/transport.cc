#include "rendezvous/client/transport.h"

#include <grpc/support/log.h>
#include <grpcpp/security/credentials.h>
#include <grpcpp/security/server_credentials.h>

#include <climits>
#include <mutex>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/synchronization/mutex.h"
#include "base/link_zone.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "base/tls_identity.h"
#include "rendezvous/wire/codec.h"

namespace mtrun::rendezvous {
namespace {

void ToOurLog(gpr_log_func_args* args) { log::Debug("grpc: ", args->message); }

using ChannelKey = std::shared_ptr<grpc::ChannelCredentials>;

/// A process uses one cluster's token, so its credentials are derived once (half a millisecond each time).
absl::StatusOr<ChannelKey> CredentialsOf(const std::string& token) {
  static std::mutex mutex;
  static auto* const last = new std::pair<std::string, ChannelKey>();
  const std::lock_guard lock(mutex);
  if (last->second == nullptr || last->first != token) {
    MT_ASSIGN_OR_RETURN(const TlsIdentity identity, DeriveIdentity(token));
    grpc::SslCredentialsOptions options;
    options.pem_root_certs = identity.ca_certificate;
    options.pem_cert_chain = identity.certificate;
    options.pem_private_key = identity.private_key;
    *last = {token, grpc::SslCredentials(options)};
  }
  return last->second;
}

/// Returns gRPC's name of a link-local address with a zone, whose % it expects encoded; else the endpoint.
std::string TargetOf(const std::string& endpoint) {
  const absl::StatusOr<Endpoint> parsed = ParseEndpoint(endpoint);
  if (!parsed.ok() || !IsLinkLocalSix(parsed->host)) return endpoint;
  const std::string host = WithZone(parsed->host, LinkZone());
  return absl::StrCat("ipv6:[", absl::StrReplaceAll(host, {{"%", "%25"}}), "]:", parsed->port);
}

}  // namespace

std::string TransportName() { return "gRPC " + grpc::Version(); }

absl::StatusOr<std::shared_ptr<grpc::ServerCredentials>> MakeServerCredentials(bool insecure,
                                                                               const std::string& token) {
  if (insecure) return grpc::InsecureServerCredentials();
  MT_ASSIGN_OR_RETURN(const TlsIdentity identity, DeriveIdentity(token));
  grpc::SslServerCredentialsOptions options(GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY);
  options.pem_root_certs = identity.ca_certificate;
  options.pem_key_cert_pairs.push_back({identity.private_key, identity.certificate});
  return grpc::SslServerCredentials(options);
}

absl::StatusOr<std::shared_ptr<grpc::Channel>> MakeChannel(const std::string& endpoint, bool insecure,
                                                           const std::string& token) {
  PrepareGrpc();
  ChannelKey credentials = grpc::InsecureChannelCredentials();
  if (!insecure) {
    MT_ASSIGN_OR_RETURN(credentials, CredentialsOf(token));
  }
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY,
                   0);  // a cluster's http_proxy is not for its own nodes
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 50);
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 3000);  // also the limit for one attempt to connect
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 500);
  arguments.SetMaxReceiveMessageSize(kMaxMessageBytes);
  arguments.SetMaxSendMessageSize(kMaxMessageBytes);
  // Each pending timer of gRPC, even a distant one, wakes a thread every second, and an idle agent needs
  // none. Set explicitly, INT_MAX means never; the default, the same number, means a timer in 25 days.
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, INT_MAX);
  arguments.SetInt(GRPC_ARG_CLIENT_IDLE_TIMEOUT_MS, INT_MAX);
  arguments.SetInt(GRPC_ARG_HTTP2_BDP_PROBE, 0);
  if (!insecure) arguments.SetSslTargetNameOverride(kTlsName);
  const std::string target = TargetOf(endpoint);
  if (target != endpoint) arguments.SetString(GRPC_ARG_DEFAULT_AUTHORITY, kTlsName);
  return grpc::CreateCustomChannel(target, credentials, arguments);
}

absl::Status JudgeCredentials(const std::string& endpoint, const grpc::Status& status, bool insecure) {
  if (insecure)
    return absl::OkStatus();  // a TLS service just closes the connection, but a restarting one does too
  const std::string& text = status.error_message();
  if (!absl::StrContains(text, "SSL_ERROR_SSL")) return absl::OkStatus();
  if (absl::StrContains(text, "WRONG_VERSION_NUMBER") || absl::StrContains(text, "wrong version number")) {
    return absl::FailedPreconditionError(absl::StrCat(
        "the service at ", endpoint,
        " does not use TLS: start it without --insecure, or give --insecure on every node; another program "
        "that listens there looks alike"));
  }
  return absl::UnauthenticatedError(absl::StrCat("the service at ", endpoint,
                                                 " has another token: give every node the same "
                                                 "MTRUN_TOKEN, --token_file or ~/.mtrun/token"));
}

absl::Status JudgeRefusal(const std::string& endpoint, const grpc::Status& status, bool insecure) {
  const bool refused = status.error_code() == grpc::StatusCode::INVALID_ARGUMENT ||
                       status.error_code() == grpc::StatusCode::FAILED_PRECONDITION ||
                       status.error_code() == grpc::StatusCode::UNIMPLEMENTED;
  if (!refused) return JudgeCredentials(endpoint, status, insecure);
  return absl::Status(
      static_cast<absl::StatusCode>(status.error_code()),
      absl::StrCat("the rendezvous service at ", endpoint, " refuses: ", status.error_message()));
}

bool MayExpectTls(const grpc::Status& status) {
  return status.error_code() == grpc::StatusCode::UNAVAILABLE &&
         (absl::StrContains(status.error_message(), "Socket closed") ||
          absl::StrContains(status.error_message(), "reset by peer"));
}

std::string WhyUnreachable(const grpc::Status& status) {
  const std::string& text = status.error_message();
  // gRPC's messages for an answer that is not HTTP/2, either all of it or only the beginning of an HTTP/1
  // one.
  const bool stranger = absl::StrContains(text, "Failed parsing HTTP/2") ||
                        absl::StrContains(text, "Trying to connect an http1.x server");
  if (stranger) return "another program is listening there; it is not a rendezvous service";
  // It closed the connection before it had said anything: it may just be ending, or be no service at all.
  if (absl::StrContains(text, "Handshake read failed"))
    return absl::StrCat(text, "; is it another program that listens there?");
  return text;
}

void PrepareGrpc() {
  static std::once_flag once;
  std::call_once(once, [] {
    gpr_set_log_function(ToOurLog);
    absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
  });
}

}  // namespace mtrun::rendezvous
