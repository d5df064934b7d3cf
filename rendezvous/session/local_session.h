// The session of an agent whose job is this node alone: straight onto a job's state machine inside the agent,
// without gRPC, whose threads wake up several times a second for as long as they live. Nobody can join and
// nobody can ask for its status.
#pragma once

#include <memory>

#include "rendezvous/session/session_client.h"

namespace mtrun::rendezvous {

/// Of `options` only node_id and job count. Handlers run on the session's own thread and must only post.
std::unique_ptr<SessionClient> StartLocalSession(SessionOptions options, SessionClient::Handler handler);

}  // namespace mtrun::rendezvous
