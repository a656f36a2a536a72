// One POST over libcurl that streams the answer. Limits time and size, can be cancelled within a
// second, and does not follow redirects. Proxies come from the environment, as for curl (none for
// loopback). Certificates come from $CURL_CA_BUNDLE, $SSL_CERT_FILE or the system.
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
  /// From the request to the first byte of the answer. Models may think for minutes before they
  /// answer.
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
  int status = 0;  // 0: no answer
  std::string content_type;
  std::optional<std::chrono::milliseconds> retry_after;
  std::string error_body;      // if the status is not 200..299
  bool sent = false;           // the whole request was sent
  bool whole = false;          // the answer ended properly, or on_bytes ended it
  std::optional<Error> error;  // why the answer is not whole
};

/// `on_bytes` gets the body of a status of 200..299, and ends the transfer by returning false. An
/// Error means that the transfer could not be started.
Result<HttpResult> HttpPost(const HttpRequest& request, const Call& call,
                            const std::function<bool(std::string_view)>& on_bytes);

}  // namespace cupel::llm
