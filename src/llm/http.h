// One POST over libcurl with its answer as a stream: bounded in time and size, cancelled within a
// second, redirects refused. Proxies come from the environment, as curl takes them (none to
// loopback); certificates from $CURL_CA_BUNDLE, $SSL_CERT_FILE or the system.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "llm/provider.h"
#include "llm/secret.h"
#include "llm/url.h"

namespace cupel::llm {

struct HttpLimits {
  std::chrono::milliseconds connect{30000};
  /// From the request to the first byte of the answer: models may think that long in silence.
  std::chrono::milliseconds first_byte{600000};
  std::chrono::milliseconds idle{180000};  // between bytes
  std::chrono::milliseconds total{3600000};
  size_t max_bytes = 64u << 20;  // of the answer
  size_t max_error_bytes = 64u << 10;
};

struct HttpRequest {
  Url base;
  std::string path;  // follows the base; may have a query
  std::vector<std::string> headers;
  std::string_view key_header;  // "Authorization: Bearer "
  const Secret* key = nullptr;
  std::string body;
  HttpLimits limits;
};

struct HttpResult {
  int status = 0;  // 0: no answer came
  std::string content_type;
  std::optional<std::chrono::milliseconds> retry_after;
  std::string error_body;      // of a status outside 200..299
  bool sent = false;           // all of the request had left
  bool whole = false;          // the answer ended as it should, or on_bytes ended it
  std::optional<Error> error;  // why it is not whole
};

/// `on_bytes` gets the body of a status of 200..299 and ends the transfer by returning false. An
/// Error means that nothing could be tried at all.
Result<HttpResult> HttpPost(const HttpRequest& request, const Call& call,
                            const std::function<bool(std::string_view)>& on_bytes);

}  // namespace cupel::llm
