// The base URL of a service, strictly read: what is unusual in a URL is refused, so that nothing
// else can read it differently. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace cupel::llm {

struct Url {
  bool https = true;
  std::string host;  // lower case; IPv6 in brackets
  int port = 0;      // 0: the scheme's own
  std::string path;  // "" or "/v1", without a / at its end

  std::string Text() const;
  /// localhost, 127.0.0.0/8 or [::1].
  bool Loopback() const;
};

/// http:// or https://, a host, perhaps a port and a path. No user, query or fragment: a key would
/// stand in logs there.
Result<Url> ParseUrl(std::string_view text);

}  // namespace cupel::llm
