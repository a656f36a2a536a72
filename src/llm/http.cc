// SPDX-License-Identifier: Apache-2.0
#include "llm/http.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "base/parse_number.h"
#include "base/text.h"
#include "llm/curl.h"
#include "llm/retry.h"
#include "os/sigpipe.h"
#include "os/stop.h"

namespace cupel::llm {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr int kPollMs = 100;
constexpr size_t kMaxHeaderBytes = 256u << 10;

/// State that the callbacks and the loop share.
struct Transfer {
  const HttpRequest* request;
  const std::function<bool(std::string_view)>* on_bytes;
  HttpResult result;
  size_t header_bytes = 0, body_bytes = 0;
  Clock::time_point last_byte;
  bool any_byte = false;
  bool enough = false;  // on_bytes ended the transfer
};

void Touch(Transfer& transfer) {
  transfer.last_byte = Clock::now();
  transfer.any_byte = true;
}

bool TakeValue(std::string_view line, std::string_view name, std::string& value) {
  if (line.size() <= name.size() || line[name.size()] != ':') return false;
  const bool same = std::equal(name.begin(), name.end(), line.begin(),
                               [](char a, char b) { return a == std::tolower(b); });
  if (!same) return false;
  value = line.substr(name.size() + 1);
  while (value.starts_with(' ')) value.erase(0, 1);
  while (!value.empty() && std::isspace(static_cast<unsigned char>(value.back()))) value.pop_back();
  return true;
}

size_t OnHeader(char* data, size_t, size_t size, void* user) {
  auto& transfer = *static_cast<Transfer*>(user);
  Touch(transfer);
  transfer.header_bytes += size;
  if (transfer.header_bytes > kMaxHeaderBytes) return 0;
  const std::string_view line(data, size);
  std::string value;
  if (line.starts_with("HTTP/")) {
    // Start of a new answer, for example after "100 Continue" or an answer of a proxy.
    transfer.result.content_type.clear();
    transfer.result.retry_after.reset();
    std::string_view rest = Trim(line.substr(std::min(line.find(' '), line.size())));
    transfer.result.status = TakeNumber<int>(rest).value_or(0);
  } else if (TakeValue(line, "content-type", value)) {
    transfer.result.content_type = value;
  } else if (TakeValue(line, "retry-after", value)) {
    const auto wait = ParseRetryAfter(value, std::time(nullptr));
    if (wait) transfer.result.retry_after = wait;
  }
  return size;
}

size_t OnBody(char* data, size_t, size_t size, void* user) {
  auto& transfer = *static_cast<Transfer*>(user);
  Touch(transfer);
  const HttpLimits& limits = transfer.request->limits;
  const std::string_view bytes(data, size);
  if (transfer.result.status < 200 || transfer.result.status > 299) {
    std::string& body = transfer.result.error_body;
    body += bytes.substr(0, limits.max_error_bytes - std::min(body.size(), limits.max_error_bytes));
    if (body.size() < limits.max_error_bytes) return size;
    transfer.enough = true;
    return 0;
  }
  transfer.body_bytes += size;
  if (transfer.body_bytes > limits.max_bytes) {
    transfer.result.error = {ErrorCode::kInvalidArgument,
                             fmt::format("the answer is larger than {} bytes", limits.max_bytes),
                             "lower max_tokens, or use another provider"};
    return 0;
  }
  if ((*transfer.on_bytes)(bytes)) return size;
  transfer.enough = true;
  return 0;
}

/// The header list. The destructor wipes it, since it contains the key.
class Headers {
 public:
  explicit Headers(const CurlApi& api) : api_(api) {}
  Headers(const Headers&) = delete;
  Headers& operator=(const Headers&) = delete;
  ~Headers() {
    for (curl_slist* item = list_; item != nullptr; item = item->next) {
      explicit_bzero(item->data, std::strlen(item->data));
    }
    api_.slist_free_all(list_);
  }
  void Add(const std::string& line) { list_ = api_.slist_append(list_, line.c_str()); }
  void AddKey(std::string_view name, const Secret& key) {
    std::string line;
    line.reserve(name.size() + key.Reveal().size() + 1);  // growing would leave copies in memory
    line += name;
    line += key.Reveal();
    Add(line);
    WipeString(line);
  }
  curl_slist* get() const { return list_; }

 private:
  const CurlApi& api_;
  curl_slist* list_ = nullptr;
};

/// The certificate file, from the environment variables that curl uses.
const char* CaBundle() {
  for (const char* name : {"CURL_CA_BUNDLE", "SSL_CERT_FILE"}) {
    const char* file = std::getenv(name);
    if (file != nullptr && *file != '\0') return file;
  }
  return nullptr;
}

void SetUp(const CurlApi& api, CURL* easy, Transfer& transfer, const Headers& headers,
           const std::string& url) {
  const HttpRequest& request = *transfer.request;
  const auto set = [&](CURLoption option, auto value) { api.easy_setopt(easy, option, value); };
  set(CURLOPT_URL, url.c_str());
  set(CURLOPT_PROTOCOLS_STR, request.base.https ? "https" : "http");
  set(CURLOPT_FOLLOWLOCATION, 0L);
  set(CURLOPT_NOSIGNAL, 1L);
  set(CURLOPT_HTTPHEADER, headers.get());
  set(CURLOPT_POST, 1L);
  set(CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(request.body.size()));
  set(CURLOPT_POSTFIELDS, request.body.c_str());
  set(CURLOPT_CONNECTTIMEOUT_MS, static_cast<long>(request.limits.connect.count()));
  set(CURLOPT_SUPPRESS_CONNECT_HEADERS, 1L);
  set(CURLOPT_HEADERFUNCTION, &OnHeader);
  set(CURLOPT_HEADERDATA, static_cast<void*>(&transfer));
  set(CURLOPT_WRITEFUNCTION, &OnBody);
  set(CURLOPT_WRITEDATA, static_cast<void*>(&transfer));
  if (request.base.Loopback()) set(CURLOPT_PROXY, "");
  if (const char* bundle = CaBundle()) set(CURLOPT_CAINFO, bundle);
}

/// An error if a time limit has passed.
std::optional<Error> Overdue(const Transfer& transfer, Clock::time_point start) {
  const HttpLimits& limits = transfer.request->limits;
  const auto now = Clock::now();
  const auto late = [](const char* what, milliseconds limit) {
    return Error{
        ErrorCode::kTimeout,
        fmt::format("{} in {} s", what, static_cast<double>(limit.count()) / 1000),
        "allow more time with timeout=SECONDS, or try again when the service is less busy"};
  };
  if (now - start > limits.total) return late("the answer was not complete", limits.total);
  if (!transfer.any_byte && now - start > limits.first_byte) {
    return late("the answer did not begin", limits.first_byte);
  }
  if (transfer.any_byte && now - transfer.last_byte > limits.idle) {
    return late("the answer stopped: no data arrived", limits.idle);
  }
  return std::nullopt;
}

/// Runs the transfer to its end, a limit or a cancellation. Returns the code of curl. At a limit or
/// a cancellation, returns CURLE_OK and sets transfer.result.error.
CURLcode Perform(const CurlApi& api, CURLM* multi, Transfer& transfer, const Call& call) {
  const auto start = Clock::now();
  const os::StopFd stop(call.stop);
  for (int running = 1; running > 0;) {
    if (api.multi_perform(multi, &running) != CURLM_OK) return CURLE_FAILED_INIT;
    if (running == 0) break;
    if (call.stop.stop_requested()) {
      transfer.result.error = Error{ErrorCode::kCancelled, "cancelled", ""};
      return CURLE_OK;
    }
    if (auto overdue = Overdue(transfer, start)) {
      transfer.result.error = std::move(overdue);
      return CURLE_OK;
    }
    curl_waitfd wait{stop.get(), CURL_WAIT_POLLIN, 0};
    if (api.multi_poll(multi, &wait, wait.fd >= 0 ? 1 : 0, kPollMs, nullptr) != CURLM_OK) {
      return CURLE_FAILED_INIT;
    }
  }
  int left = 0;
  const CURLMsg* message = api.multi_info_read(multi, &left);
  return message != nullptr ? message->data.result : CURLE_FAILED_INIT;
}

/// The remedy for a failed connection.
std::string RemedyOf(CURLcode code) {
  switch (code) {
    case CURLE_COULDNT_RESOLVE_HOST:
    case CURLE_COULDNT_RESOLVE_PROXY:
      return "check the name in the base URL, and the network";
    case CURLE_COULDNT_CONNECT:
      return "check that the service is running there, and the network";
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CACERT_BADFILE:
      return "set CURL_CA_BUNDLE to the certificate file, if the service uses its own certificates";
    default:
      return "check the network, and try again";
  }
}

void Conclude(const CurlApi& api, CURL* easy, CURLcode code, Transfer& transfer) {
  curl_off_t uploaded = 0;
  api.easy_getinfo(easy, CURLINFO_SIZE_UPLOAD_T, &uploaded);
  HttpResult& result = transfer.result;
  result.sent =
      result.status != 0 || uploaded >= static_cast<curl_off_t>(transfer.request->body.size());
  if (result.error) return;
  result.whole = code == CURLE_OK || transfer.enough;
  if (result.whole) return;
  // Certificate errors are permanent.
  const bool permanent = code == CURLE_PEER_FAILED_VERIFICATION || code == CURLE_SSL_CACERT_BADFILE;
  result.error = Error{permanent ? ErrorCode::kEnvironment : ErrorCode::kIo,
                       api.easy_strerror(code), RemedyOf(code)};
}

}  // namespace

Result<HttpResult> HttpPost(const HttpRequest& request, const Call& call,
                            const std::function<bool(std::string_view)>& on_bytes) {
  TRY_ASSIGN(const CurlApi* api, LoadCurl());
  const os::SigpipeGuard guard;
  Transfer transfer{&request, &on_bytes, {}, 0, 0, Clock::now()};
  Headers headers(*api);
  headers.Add("Content-Type: application/json");
  headers.Add("Accept: text/event-stream, application/json");
  headers.Add("Expect:");  // disables the wait for "100 Continue"
  for (const std::string& line : request.headers) headers.Add(line);
  if (request.key != nullptr && !request.key->empty()) {
    headers.AddKey(request.key_header, *request.key);
  }
  const std::string url = request.base.Text() + request.path;
  const std::unique_ptr<CURL, decltype(api->easy_cleanup)> easy(api->easy_init(),
                                                                api->easy_cleanup);
  const std::unique_ptr<CURLM, decltype(api->multi_cleanup)> multi(api->multi_init(),
                                                                   api->multi_cleanup);
  if (!easy || !multi) return Fail(ErrorCode::kEnvironment, "libcurl is out of memory");
  SetUp(*api, easy.get(), transfer, headers, url);
  if (api->multi_add_handle(multi.get(), easy.get()) != CURLM_OK) {
    return Fail(ErrorCode::kEnvironment, "libcurl is out of memory");
  }
  const CURLcode code = Perform(*api, multi.get(), transfer, call);
  Conclude(*api, easy.get(), code, transfer);
  api->multi_remove_handle(multi.get(), easy.get());
  return std::move(transfer.result);
}

}  // namespace cupel::llm
