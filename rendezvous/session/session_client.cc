#include "rendezvous/session/session_client.h"

#include <utility>

#include "rendezvous/session/session_core.h"

namespace mtrun::rendezvous {
namespace {

class GrpcSessionClient final : public SessionClient {
 public:
  GrpcSessionClient(SessionOptions options, Handler handler)
      : core_(std::make_shared<SessionCore>(std::move(options), std::move(handler))) {
    core_->Start();
  }
  ~GrpcSessionClient() override { core_->Stop(); }
  void Send(const AgentEvent& event) override { core_->Send(event); }
  bool Flush(Duration timeout) override { return core_->Flush(timeout); }
  void StampMainLoop() override { core_->StampMainLoop(); }
  void SetNote(const std::string& note) override { core_->SetNote(note); }
  void SetOrdinary(bool ordinary) override { core_->SetOrdinary(ordinary); }
  void TryToo(const std::vector<std::string>& endpoints) override { core_->TryToo(endpoints); }

 private:
  const std::shared_ptr<SessionCore> core_;
};

}  // namespace

std::unique_ptr<SessionClient> SessionClient::Start(SessionOptions options, Handler handler) {
  return std::make_unique<GrpcSessionClient>(std::move(options), std::move(handler));
}

}  // namespace mtrun::rendezvous
