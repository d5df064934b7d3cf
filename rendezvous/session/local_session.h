// The session of an agent whose job is this node alone: a job's state machine inside the agent, without gRPC,
// whose threads wake up several times a second. No other node can join, and no client can ask for its status.
#pragma once

#include <memory>

#include "rendezvous/session/session_client.h"

namespace mtrun::rendezvous {

/// Uses only node_id and job of `options`. Handlers run on the session's own thread and must only post.
std::unique_ptr<SessionClient> StartLocalSession(SessionOptions options, SessionClient::Handler handler);

}  // namespace mtrun::rendezvous
