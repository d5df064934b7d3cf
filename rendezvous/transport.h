// What client and service share of gRPC: credentials from the token, channel arguments, its log kept quiet.
#pragma once

#include <grpcpp/grpcpp.h>

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace mtrun::rendezvous {

/// "gRPC 1.51.1", for --version.
std::string TransportName();

absl::StatusOr<std::shared_ptr<grpc::ServerCredentials>> MakeServerCredentials(bool insecure,
                                                                               const std::string& token);

/// A channel of its own (nothing shared with other channels of the process) that retries quickly.
absl::StatusOr<std::shared_ptr<grpc::Channel>> MakeChannel(const std::string& endpoint, bool insecure,
                                                           const std::string& token);

/// What the failure of a call says about the credentials, in one sentence: kUnauthenticated for another
/// token, kFailedPrecondition for a service without TLS, OK when trying again may help.
absl::Status JudgeCredentials(const std::string& endpoint, const grpc::Status& status, bool insecure);
/// The same, and the service's own refusal (another protocol version, a stream that it cannot read): what
/// makes further attempts useless.
absl::Status JudgeRefusal(const std::string& endpoint, const grpc::Status& status, bool insecure);
/// True when a plain-text call failed as it does against a service that expects TLS (or one that is just
/// going away).
bool MayExpectTls(const grpc::Status& status);
/// Why a call failed, for people: gRPC's words, or plainer ones where another program listens at the port.
std::string WhyUnreachable(const grpc::Status& status);

/// gRPC's own lines go to our log, at debug level, and nobody looks for deadlocks among its mutexes: Abseil
/// as Debian has it keeps a graph of all that are held, behind one lock, and ends the program where the order
/// of two differs. Call before the first use; any number of times.
void PrepareGrpc();

}  // namespace mtrun::rendezvous
