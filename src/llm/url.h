// The base URL of a service, parsed strictly. Rejects unusual URLs, so that other parsers cannot
// interpret them differently.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace cupel::llm {

struct Url {
  bool https = true;
  std::string host;  // lower case; IPv6 in brackets
  int port = 0;      // 0: the default of the scheme
  std::string path;  // "" or "/v1", without a / at its end

  std::string Text() const;
  /// localhost, 127.0.0.0/8 or [::1].
  bool Loopback() const;
};

/// Parses http:// or https://, a host, and optionally a port and a path. Rejects a user, query or
/// fragment, since a key in these would appear in logs.
Result<Url> ParseUrl(std::string_view text);

}  // namespace cupel::llm
