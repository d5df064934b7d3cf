#include "page/watcher.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/json_text.h"
#include "page/state_json.h"

namespace mtrun::page {

Watcher::Watcher(Ask ask, std::vector<std::string> endpoints, Duration fresh)
    : ask_(std::move(ask)), fresh_(fresh), endpoints_(std::move(endpoints)), thread_([this] { Run(); }) {}

Watcher::~Watcher() {
  {
    const MutexLock lock(mu_);
    stopping_ = true;
    changed_.NotifyAll();
  }
  thread_.join();
  for (const Listener& listener : listeners_) listener.body->End();
}

void Watcher::SetEndpoints(std::vector<std::string> endpoints) {
  const MutexLock lock(mu_);
  endpoints_ = std::move(endpoints);
}

std::vector<std::string> Watcher::endpoints() const {
  const MutexLock lock(mu_);
  return endpoints_;
}

void Watcher::AddListener(std::shared_ptr<web::LiveBody> body, std::shared_ptr<const Session> session) {
  const MutexLock lock(mu_);
  listeners_.push_back({std::move(body), std::move(session)});
  changed_.NotifyAll();
}

void Watcher::EndListeners() {
  const MutexLock lock(mu_);
  DropListeners();
}

void Watcher::Look(Told told) {
  const MutexLock lock(mu_);
  looking_.push_back(std::move(told));
  changed_.NotifyAll();
}

bool Watcher::Probe(Probed told) {
  bool answers = false;
  {
    const MutexLock lock(mu_);
    if (MonotonicNow() >= fresh_until_) {
      if (waiting_ >= kMaxProbes) return false;
      ++waiting_;
      probing_.push_back(std::move(told));
      changed_.NotifyAll();
      return true;
    }
    answers = answers_;
  }
  told(answers);
  return true;
}

void Watcher::Remember(bool answers, TimePoint now) {
  const MutexLock lock(mu_);
  answers_ = answers;
  fresh_until_ = now + fresh_;
}

void Watcher::DropListeners() {
  const TimePoint now = MonotonicNow();
  std::erase_if(listeners_, [now](const Listener& listener) {
    const bool ended = listener.session && listener.session->HasEnded(now);
    if (ended) listener.body->End();
    return ended || listener.body->gone();
  });
}

void Watcher::Run() {
  mu_.Lock();
  while (!stopping_) {
    DropListeners();
    if (!Wanted()) {
      changed_.Wait(mu_);
      continue;
    }
    const std::vector<std::string> endpoints = endpoints_;
    const std::vector<Told> looking = std::exchange(looking_, {});
    const std::vector<Probed> probing = std::exchange(probing_, {});
    mu_.Unlock();
    const absl::StatusOr<rendezvous::WatchedState> state = ask_(endpoints);
    const TimePoint now = MonotonicNow();
    Remember(state.ok(), now);
    if (state.ok()) history_.OnState(*state, now);
    const nlohmann::json json =
        state.ok() ? StateJson(*state, history_, now) : SilenceJson(std::string(state.status().message()));
    const std::string event = absl::StrCat("event: state\ndata: ", JsonLine(json), "\n");
    for (const Told& told : looking) told(json);
    for (const Probed& told : probing) told(state.ok());
    mu_.Lock();
    waiting_ -= probing.size();
    DropListeners();  // a session may have ended during the query
    for (const Listener& listener : listeners_) listener.body->Set(event);
    // Keeps the pause even if clients ask one after the other.
    const TimePoint next = now + kPause;
    while (!stopping_ && MonotonicNow() < next) changed_.WaitUntil(mu_, next);
  }
  mu_.Unlock();
}

}  // namespace mtrun::page
