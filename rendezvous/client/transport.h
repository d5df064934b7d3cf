// gRPC setup shared by client and service: credentials from the token, channel arguments, its log kept quiet.
#pragma once

#include <grpcpp/grpcpp.h>

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace mtrun::rendezvous {

/// Returns "gRPC 1.51.1", for --version.
std::string TransportName();

absl::StatusOr<std::shared_ptr<grpc::ServerCredentials>> MakeServerCredentials(bool insecure,
                                                                               const std::string& token);

/// Makes a channel that shares nothing with other channels of the process and retries quickly.
absl::StatusOr<std::shared_ptr<grpc::Channel>> MakeChannel(const std::string& endpoint, bool insecure,
                                                           const std::string& token);

/// Returns what a failed call says about the credentials, in one sentence: kUnauthenticated for another
/// token, kFailedPrecondition for a service without TLS, OK if a retry may help.
absl::Status JudgeCredentials(const std::string& endpoint, const grpc::Status& status, bool insecure);
/// The same, and the service's own refusal (another protocol version, a stream that it cannot read): errors
/// for which a retry cannot help.
absl::Status JudgeRefusal(const std::string& endpoint, const grpc::Status& status, bool insecure);
/// True if a plain-text call failed as it does at a service that expects TLS (or at one that is just shutting
/// down).
bool MayExpectTls(const grpc::Status& status);
/// Returns why a call failed, for people, in plainer words if another program listens at the port.
std::string WhyUnreachable(const grpc::Status& status);

/// Sends gRPC's log lines to our log at debug level, and disables the search for deadlocks among its mutexes:
/// Debian's Abseil keeps a graph of all held mutexes behind one lock, and aborts the program if the order of
/// two differs. Call before the first use; any number of times.
void PrepareGrpc();

}  // namespace mtrun::rendezvous
