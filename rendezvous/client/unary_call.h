// Sends one request to a rendezvous service and waits for the answer. Blocking, with a deadline; any thread.
#pragma once

#include <grpcpp/grpcpp.h>

#include <chrono>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "base/clock.h"
#include "base/endpoint.h"
#include "base/status_macros.h"
#include "base/token.h"
#include "rendezvous/client/status_client.h"
#include "rendezvous/client/transport.h"
#include "rendezvous/wire/rendezvous.grpc.pb.h"

namespace mtrun::rendezvous {

/// How long a user waits for an answer.
inline constexpr Duration kAnswerPatience = std::chrono::seconds(5);

/// The stub's member function for a request.
template <typename Request, typename Reply>
using UnaryCall = grpc::Status (wire::Rendezvous::Stub::*)(grpc::ClientContext*, const Request&, Reply*);

/// Returns kUnauthenticated for another token, kUnimplemented if the service does not know the request, and
/// kUnavailable if no answer comes in time.
template <typename Request, typename Reply>
absl::StatusOr<Reply> Ask(const std::string& endpoint, bool insecure, const std::string& token,
                          Duration timeout, const Request& request, UnaryCall<Request, Reply> call) {
  MT_ASSIGN_OR_RETURN(const auto channel, MakeChannel(endpoint, insecure, token));
  const auto stub = wire::Rendezvous::NewStub(channel);
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() +
                       std::chrono::duration_cast<std::chrono::microseconds>(timeout));
  Reply reply;
  const grpc::Status status = (stub.get()->*call)(&context, request, &reply);
  if (status.ok()) return reply;
  MT_RETURN_IF_ERROR(JudgeCredentials(endpoint, status, insecure));
  if (insecure && MayExpectTls(status)) MT_RETURN_IF_ERROR(CheckPlainText(endpoint, timeout));
  if (status.error_code() == grpc::StatusCode::UNIMPLEMENTED) {
    return absl::UnimplementedError(absl::StrCat("the rendezvous service at ", endpoint,
                                                 " is of an older mtrun, which does not know this request"));
  }
  return absl::UnavailableError(
      absl::StrCat("no rendezvous service answers at ", endpoint, ": ", WhyUnreachable(status)));
}

/// Returns the token, or "" for plain text; a missing token is not made.
inline absl::StatusOr<std::string> TokenOf(const Credentials& credentials) {
  if (credentials.insecure) return std::string();
  return LoadToken(credentials.token, MissingToken::kRefuse);
}

}  // namespace mtrun::rendezvous
