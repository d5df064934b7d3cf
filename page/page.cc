#include "page/page.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/endpoint.h"
#include "base/log.h"
#include "base/posix.h"
#include "base/sha256.h"
#include "base/status_macros.h"
#include "base/tls_identity.h"
#include "page/assets.h"
#include "page/calls.h"
#include "page/gate.h"
#include "page/metrics.h"
#include "page/request_parts.h"
#include "page/state_json.h"
#include "page/watcher.h"
#include "web/http_server.h"

namespace mtrun::page {
namespace {

using web::Reply;
using web::Request;
using web::Response;

std::string RandomText() { return absl::StrFormat("%016x%016x", RandomBits(), RandomBits()); }

/// Returns the endpoint with a numeric address.
absl::StatusOr<Endpoint> PlaceOf(const std::string& listen) {
  MT_ASSIGN_OR_RETURN(Endpoint endpoint, Annotate(ParseLocalEndpoint(listen, kDefaultPagePort), "--http"));
  if (IsIpAddress(endpoint.host)) return endpoint;
  const std::vector<std::string> addresses = ResolveHost(endpoint.host);
  if (addresses.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("--http: \"", endpoint.host,
                     "\" does not resolve to an address; give one of this machine's, or "
                     "127.0.0.1 for this machine alone"));
  }
  return Endpoint{addresses.front(), endpoint.port};
}

/// Returns a separate identity, so that the page's key cannot be used for the rendezvous.
absl::StatusOr<TlsIdentity> IdentityOf(const std::string& token) {
  return DeriveIdentity(HmacSha256(token, "mtrun live page, TLS 1"));
}

class LivePage final : public Page {
 public:
  LivePage(const PageOptions& options, GateConfig gate)
      : gate_(std::move(gate)),
        client_(options.insecure, options.token),
        watcher_([this](const auto& endpoints) { return client_.Ask(endpoints); }, options.endpoints),
        calls_({options.insecure, options.token}) {}

  ~LivePage() override { server_.reset(); }  // stops handlers before the members that they use

  /// `tls` is null for plain text.
  absl::Status Listen(const Endpoint& place, std::shared_ptr<web::TlsContext> tls) {
    web::Service service{.routes = Routes(), .tls = std::move(tls)};
    service.limits.handler_patience = std::chrono::seconds(10);  // a call to a service has 5 s
    service.limits.connections = 128;
    MT_ASSIGN_OR_RETURN(server_, web::HttpServer::Start(place.host, place.port, service));
    return absl::OkStatus();
  }

  int port() const override { return server_->port(); }
  void SetEndpoints(std::vector<std::string> endpoints) override {
    watcher_.SetEndpoints(std::move(endpoints));
  }

 private:
  using Need = Gate::Need;
  using Act = std::function<void(const Request&, const Gate::Pass&, const Reply&)>;

  /// Wraps `act` in the gate's check; all answers get the guarding headers.
  web::Handler Behind(Need need, Act act) {
    return [this, need, act = std::move(act)](const Request& request, const Reply& reply) {
      Gate::Pass pass = gate_.Check(request, need, MonotonicNow());
      if (pass.refusal) return reply(Guarded(*std::move(pass.refusal)));
      act(request, pass, [need, reply](Response response) {
        response.authenticated = need != Need::kNothing;
        reply(Guarded(std::move(response)));
      });
    };
  }

  web::Handler Asset(const char* type, const std::string& text) {
    return Behind(Need::kNothing, [type, &text](const auto&, const auto&, const Reply& reply) {
      reply({.content_type = type, .body = text});
    });
  }

  std::vector<web::Route> Routes() {
    std::vector<web::Route> routes = {
        {"GET", "/", Asset("text/html; charset=utf-8", PageHtml())},
        {"GET", "/page.css", Asset("text/css; charset=utf-8", PageCss())},
        {"GET", "/page.js", Asset("text/javascript; charset=utf-8", PageJs())},
        {"GET", "/parts.js", Asset("text/javascript; charset=utf-8", PartsJs())},
        {"GET", "/chart.js", Asset("text/javascript; charset=utf-8", ChartJs())},
        {"GET", "/icon.svg", Asset("image/svg+xml", IconSvg())},
        {"GET", "/healthz",
         Behind(Need::kNothing,
                [](const auto&, const auto&, const Reply& reply) { reply({.body = "ok\n"}); })},
        {"GET", "/readyz",
         Behind(Need::kNothing,
                [this](const auto&, const auto&, const Reply& reply) { AnswerProbe(reply); })},
        {"POST", "/login",
         [this](const Request& request, const Reply& reply) {
           reply(Guarded(gate_.LogIn(request, MonotonicNow())));
           watcher_.EndListeners();  // the new session may have replaced another one
         }},
        {"POST", "/logout", [this](const Request& request, const Reply& reply) {
           reply(Guarded(gate_.LogOut(request, MonotonicNow())));
           watcher_.EndListeners();
         }}};
    AddViews(&routes);
    AddCalls(&routes);
    return routes;
  }

  /// Needs no login, so a client that probes constantly may only hold a few connections.
  void AnswerProbe(const Reply& reply) {
    const bool taken = watcher_.Probe([reply](bool answers) {
      reply({.status = answers ? 200 : 503, .body = answers ? "ok\n" : "no rendezvous service answers\n"});
    });
    if (!taken)
      reply({.status = 503, .body = "too many requests at a time\n", .headers = {{"Retry-After", "1"}}});
  }

  void AddViews(std::vector<web::Route>* routes) {
    routes->push_back(
        {"GET", "/api/state", Behind(Need::kViewer, [this](const auto&, const auto&, const Reply& reply) {
           watcher_.Look([reply](const nlohmann::json& state) { reply(JsonResponse(state)); });
         })});
    routes->push_back({"GET", "/api/live",
                       Behind(Need::kViewer, [this](const auto&, const Gate::Pass& pass, const Reply& reply) {
                         const auto live = std::make_shared<web::LiveBody>();
                         reply({.content_type = "text/event-stream", .live = live});
                         watcher_.AddListener(live, pass.session);
                       })});
    routes->push_back(
        {"GET", "/metrics", Behind(Need::kViewer, [this](const auto&, const auto&, const Reply& reply) {
           watcher_.Look([reply](const nlohmann::json& state) {
             reply({.content_type = "text/plain; version=0.0.4; charset=utf-8", .body = MetricsText(state)});
           });
         })});
    routes->push_back({"GET", "/api/log",
                       Behind(Need::kViewer, [this](const Request& request, const auto&, const Reply& reply) {
                         calls_.ReadLog(watcher_.endpoints(), request.query, reply);
                       })});
  }

  void AddCalls(std::vector<web::Route>* routes) {
    using rendezvous::ControlKind;
    for (const ControlKind& what :
         {ControlKind(rendezvous::DrainCall()), ControlKind(rendezvous::EvictCall()),
          ControlKind(rendezvous::StopCall()), ControlKind(rendezvous::StacksCall())}) {
      routes->push_back(
          {"POST", absl::StrCat("/api/", NameOf(what)),
           Behind(Need::kOperator, [this, what](const Request& request, const auto&, const Reply& reply) {
             calls_.Control(watcher_.endpoints(), what, request.body, reply);
           })});
    }
  }

  Gate gate_;                       // the server's thread only
  rendezvous::WatchClient client_;  // the watcher's thread only
  Watcher watcher_;
  Calls calls_;
  std::unique_ptr<web::HttpServer> server_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Page>> Page::Start(const PageOptions& options) {
  MT_ASSIGN_OR_RETURN(const Endpoint place, PlaceOf(options.listen));
  std::shared_ptr<web::TlsContext> tls;
  TlsIdentity identity;
  if (!IsLoopback(place.host)) {
    MT_ASSIGN_OR_RETURN(identity, IdentityOf(options.page_token));
    MT_ASSIGN_OR_RETURN(
        tls, web::MakeTlsContext(identity.certificate + identity.ca_certificate, identity.private_key));
  }
  MT_ASSIGN_OR_RETURN(const Endpoint wanted, ParseEndpoint(options.listen));
  GateConfig gate{.token = options.page_token,
                  .encrypted = tls != nullptr,
                  .names = {absl::AsciiStrToLower(HostName()), absl::AsciiStrToLower(wanted.host)},
                  .random = RandomText};
  const std::string own = gate.names.front();
  gate.names.push_back(own.substr(0, own.find('.')));
  auto page = std::make_unique<LivePage>(options, std::move(gate));
  MT_RETURN_IF_ERROR(Annotate(page->Listen(place, tls), "--http"));
  // A browser cannot open the address that stands for all.
  const bool all = wanted.host == "0.0.0.0" || wanted.host == "::";
  log::Info("the page is at ", tls ? "https://" : "http://",
            ToText({all ? HostName() : wanted.host, page->port()}),
            "/ (its passwords: mtrun --http_passwords)");
  if (tls) {
    MT_ASSIGN_OR_RETURN(const std::string fingerprint, web::Fingerprint(identity.certificate));
    log::Info("SHA-256 fingerprint of the page's certificate: ", fingerprint);
  }
  return page;
}

}  // namespace mtrun::page
