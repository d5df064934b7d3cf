#include "datasets/remote/transfers.h"

#include <curl/curl.h>

#include <algorithm>
#include <array>
#include <cstdlib>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "base/string_view.h"
#include "base/version.h"

namespace mtrun::datasets {

struct Transfer {
  int64_t id = 0;
  CURL* easy = nullptr;
  curl_slist* headers = nullptr;
  Transfers::Sink sink;
  std::array<char, CURL_ERROR_SIZE> error{};
  int64_t from = 0, offset = 0;
  int64_t error_body = 0;  // bytes of it
  int64_t range_at = -1;   // the first byte of a 206, as the server says
  std::optional<int64_t> retry_after;
  absl::Status refused;  // by the sink

  ~Transfer() {
    curl_easy_cleanup(easy);
    curl_slist_free_all(headers);
  }
};

namespace {

using Link = TransferEnd::Link;

constexpr long kConnectSeconds = 10;
// Bytes of an error's body that are read, so that the connection can be used again.
constexpr int64_t kMaxErrorBody = 4 << 10;
constexpr long kBuffer = 512 << 10;
constexpr unsigned kSigningVersion = 0x075800;  // 7.88; some older ones do not sign all headers

long StatusOf(CURL* easy) {
  long status = 0;
  curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &status);
  return status;
}

/// "bytes 100-199/1000" begins at 100.
int64_t RangeStart(absl::string_view value) {
  const absl::string_view text = absl::StripAsciiWhitespace(value);
  int64_t start = -1;
  if (!absl::StartsWithIgnoreCase(text, "bytes ")) return -1;
  const absl::string_view rest = text.substr(6);
  return absl::SimpleAtoi(rest.substr(0, rest.find('-')), &start) ? start : -1;
}

size_t OnHeader(char* bytes, size_t one, size_t count, void* user) {
  auto& transfer = *static_cast<Transfer*>(user);
  const absl::string_view line(bytes, one * count);
  const size_t colon = line.find(':');
  if (absl::StartsWith(line, "HTTP/")) {  // the final response, after those of proxies
    transfer.range_at = -1;
    transfer.retry_after.reset();
  }
  if (colon == absl::string_view::npos) return one * count;
  const absl::string_view name = line.substr(0, colon), value = line.substr(colon + 1);
  int64_t seconds = 0;
  if (absl::EqualsIgnoreCase(name, "content-range")) transfer.range_at = RangeStart(value);
  if (absl::EqualsIgnoreCase(name, "retry-after") && absl::SimpleAtoi(value, &seconds))
    transfer.retry_after = seconds;
  return one * count;
}

size_t OnBody(char* bytes, size_t one, size_t count, void* user) {
  auto& transfer = *static_cast<Transfer*>(user);
  const size_t size = one * count;
  const long status = StatusOf(transfer.easy);
  if (status != 200 && status != 206) {
    transfer.error_body += static_cast<int64_t>(size);
    return transfer.error_body <= kMaxErrorBody ? size : 0;
  }
  if (transfer.offset < 0) {
    transfer.offset = status == 206 ? transfer.range_at : 0;
    if (status == 206 && transfer.range_at != transfer.from) {
      transfer.refused =
          absl::UnavailableError("the server sent a different range of the file than requested");
      return 0;
    }
  }
  transfer.refused = transfer.sink(transfer.offset, {bytes, size});
  if (!transfer.refused.ok()) return 0;
  transfer.offset += static_cast<int64_t>(size);
  return size;
}

Link LinkOf(CURLcode code) {
  switch (code) {
    case CURLE_OK:
      return Link::kOk;
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_PINNEDPUBKEYNOTMATCH:
    case CURLE_SSL_CACERT_BADFILE:
    case CURLE_SSL_ISSUER_ERROR:
      return Link::kUntrusted;
    default:
      return Link::kBroken;
  }
}

TransferEnd EndOf(const Transfer& transfer, CURLcode code) {
  // The status of an error is the answer, however much of its body follows.
  if (transfer.error_body > 0) code = CURLE_OK;
  TransferEnd end{.link = LinkOf(code), .status = static_cast<int>(StatusOf(transfer.easy))};
  if (code != CURLE_OK) end.error = transfer.error[0] != 0 ? transfer.error.data() : curl_easy_strerror(code);
  if (!transfer.refused.ok()) {
    end.error = std::string(transfer.refused.message());
    if (!absl::IsUnavailable(transfer.refused)) end.link = Link::kNotWritten;
  }
  end.wait_seconds = transfer.retry_after;
  char* location = nullptr;
  curl_easy_getinfo(transfer.easy, CURLINFO_REDIRECT_URL, &location);
  if (location != nullptr) end.location = location;
  return end;
}

void SetTrust(CURL* easy, const FetchRequest& request) {
  if (request.trust == Trust::kDataKey) {
    // Only the owner of the pinned key proves to have it, so certificate and host name do not matter.
    curl_easy_setopt(easy, CURLOPT_SSL_VERIFYPEER, 0L);
    curl_easy_setopt(easy, CURLOPT_SSL_VERIFYHOST, 0L);
    // Without the pin any server would be trusted.
    MT_CHECK(!request.pin.empty() &&
             curl_easy_setopt(easy, CURLOPT_PINNEDPUBLICKEY, request.pin.c_str()) == CURLE_OK);
    return;
  }
  for (const char* name : {"CURL_CA_BUNDLE", "SSL_CERT_FILE"}) {
    const char* file = std::getenv(name);
    if (file == nullptr || file[0] == 0) continue;
    curl_easy_setopt(easy, CURLOPT_CAINFO, file);
    return;
  }
}

void SetRequest(Transfer& transfer, const FetchRequest& request) {
  CURL* const easy = transfer.easy;
  curl_easy_setopt(easy, CURLOPT_URL, request.url.c_str());
  for (const auto& [name, value] : request.headers)
    transfer.headers = curl_slist_append(transfer.headers, absl::StrCat(name, ": ", value).c_str());
  if (request.from > 0) {
    const std::string range = absl::StrCat("Range: bytes=", request.from, "-");
    transfer.headers = curl_slist_append(transfer.headers, range.c_str());
  }
  if (request.fresh) transfer.headers = curl_slist_append(transfer.headers, "Cache-Control: no-cache");
  curl_easy_setopt(easy, CURLOPT_HTTPHEADER, transfer.headers);
  if (request.direct) curl_easy_setopt(easy, CURLOPT_NOPROXY, "*");
}

/// libcurl signs all headers that it is given, and host and time. 7.88 does not sort a query before it signs
/// it: REQUIRES: the URL has none.
void SetKeys(CURL* easy, const S3Keys& keys) {
  const std::string scope = absl::StrCat("aws:amz:", keys.region, ":s3");
  // Without the signature it would send the keys themselves.
  MT_CHECK(curl_easy_setopt(easy, CURLOPT_AWS_SIGV4, scope.c_str()) == CURLE_OK);
  curl_easy_setopt(easy, CURLOPT_USERNAME, keys.access_key.c_str());
  curl_easy_setopt(easy, CURLOPT_PASSWORD, keys.secret_key.c_str());
}

void SetLimits(CURL* easy, const TransferLimits& limits) {
  curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(easy, CURLOPT_FOLLOWLOCATION, 0L);
  curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
  // Concurrent transfers use separate connections.
  curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, long{CURL_HTTP_VERSION_1_1});
  curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT, kConnectSeconds);
  curl_easy_setopt(easy, CURLOPT_LOW_SPEED_LIMIT, limits.least_bytes_a_second);
  curl_easy_setopt(easy, CURLOPT_LOW_SPEED_TIME, limits.slow_seconds);
  curl_easy_setopt(easy, CURLOPT_TCP_KEEPALIVE, 1L);
  curl_easy_setopt(easy, CURLOPT_BUFFERSIZE, kBuffer);
  curl_easy_setopt(easy, CURLOPT_USERAGENT, absl::StrCat("mtdata/", Version()).c_str());
  curl_easy_setopt(easy, CURLOPT_NETRC, long{CURL_NETRC_IGNORED});
}

}  // namespace

absl::Status Transfers::CheckSigning() {
  const curl_version_info_data& own = *curl_version_info(CURLVERSION_NOW);
  Transfer transfer;
  transfer.easy = curl_easy_init();
  // It may be built without signatures.
  const bool known = curl_easy_setopt(transfer.easy, CURLOPT_AWS_SIGV4, "aws:amz") == CURLE_OK;
  if (known && own.version_num >= kSigningVersion) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("s3:// needs libcurl 7.88 or newer, with AWS signatures; this machine has ", own.version));
}

Transfers::Transfers(const TransferLimits& limits) : limits_(limits) {
  static const CURLcode once = curl_global_init(CURL_GLOBAL_DEFAULT);
  MT_CHECK(once == CURLE_OK) << curl_easy_strerror(once);
  multi_ = curl_multi_init();
}

Transfers::~Transfers() {
  while (!transfers_.empty()) Cancel(transfers_.begin()->first);
  curl_multi_cleanup(multi_);
}

void Transfers::Start(int64_t id, const FetchRequest& request, Sink sink) {
  auto made = std::make_unique<Transfer>();
  Transfer& transfer = *made;
  transfer.id = id;
  transfer.easy = curl_easy_init();
  transfer.sink = std::move(sink);
  transfer.from = request.from;
  transfer.offset = -1;
  SetLimits(transfer.easy, limits_);
  SetTrust(transfer.easy, request);
  SetRequest(transfer, request);
  if (request.s3_keys) SetKeys(transfer.easy, *request.s3_keys);
  curl_easy_setopt(transfer.easy, CURLOPT_ERRORBUFFER, transfer.error.data());
  curl_easy_setopt(transfer.easy, CURLOPT_HEADERFUNCTION, OnHeader);
  curl_easy_setopt(transfer.easy, CURLOPT_HEADERDATA, &transfer);
  curl_easy_setopt(transfer.easy, CURLOPT_WRITEFUNCTION, OnBody);
  curl_easy_setopt(transfer.easy, CURLOPT_WRITEDATA, &transfer);
  curl_easy_setopt(transfer.easy, CURLOPT_PRIVATE, &transfer);
  curl_multi_add_handle(multi_, transfer.easy);
  transfers_[id] = std::move(made);
}

void Transfers::Cancel(int64_t id) {
  const auto found = transfers_.find(id);
  if (found == transfers_.end()) return;
  curl_multi_remove_handle(multi_, found->second->easy);
  transfers_.erase(found);
}

int64_t Transfers::Received(int64_t id) const {
  const auto found = transfers_.find(id);
  curl_off_t bytes = 0;
  if (found != transfers_.end()) curl_easy_getinfo(found->second->easy, CURLINFO_SIZE_DOWNLOAD_T, &bytes);
  return bytes;
}

std::vector<Transfers::Ended> Transfers::Collect() {
  std::vector<Ended> ended;
  int left = 0;
  while (CURLMsg* message = curl_multi_info_read(multi_, &left)) {
    if (message->msg != CURLMSG_DONE) continue;
    Transfer* transfer = nullptr;
    curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, &transfer);
    ended.push_back({transfer->id, EndOf(*transfer, message->data.result)});
  }
  for (const Ended& one : ended) Cancel(one.id);
  return ended;
}

std::vector<Transfers::Ended> Transfers::Wait(std::vector<pollfd>& others, Duration timeout) {
  int running = 0;
  curl_multi_perform(multi_, &running);
  std::vector<Ended> ended = Collect();
  if (!ended.empty()) timeout = Duration::zero();
  std::vector<curl_waitfd> also;
  for (const pollfd& other : others)
    also.push_back({.fd = other.fd,
                    .events = static_cast<short>(((other.events & POLLIN) != 0 ? CURL_WAIT_POLLIN : 0) |
                                                 ((other.events & POLLOUT) != 0 ? CURL_WAIT_POLLOUT : 0)),
                    .revents = 0});
  const auto milliseconds = std::max<int64_t>(0, timeout / std::chrono::milliseconds(1));
  curl_multi_poll(multi_, also.data(), static_cast<unsigned>(also.size()),
                  static_cast<int>(std::min<int64_t>(milliseconds, 60'000)), nullptr);
  // curl does not report hang-ups: poll again for them.
  poll(others.data(), others.size(), 0);
  return ended;
}

}  // namespace mtrun::datasets
