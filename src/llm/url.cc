// SPDX-License-Identifier: Apache-2.0
#include "llm/url.h"

#include <arpa/inet.h>
#include <fmt/format.h>

#include <algorithm>

#include "base/parse_number.h"
#include "llm/request.h"

namespace cupel::llm {
namespace {

bool IsAlnum(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

tl::unexpected<Error> Bad(std::string_view why) {
  // Do not quote the text: it may contain a password.
  return Fail(ErrorCode::kInvalidArgument, fmt::format("the base URL is not usable: {}", why),
              "give it as https://HOST[:PORT][/PATH], and the key in the environment");
}

bool IsHost(std::string_view host) {
  if (host.starts_with('[')) {
    in6_addr address{};
    return host.ends_with(']') && host.size() > 2 && host.size() < 64 &&
           inet_pton(AF_INET6, std::string(host.substr(1, host.size() - 2)).c_str(), &address) == 1;
  }
  return !host.empty() && host.size() <= 253 && std::ranges::all_of(host, [](char c) {
    return IsAlnum(c) || c == '-' || c == '.' || c == '_';
  });
}

}  // namespace

std::string Url::Text() const {
  return fmt::format("{}://{}{}{}", https ? "https" : "http", host,
                     port == 0 ? "" : fmt::format(":{}", port), path);
}

bool Url::Loopback() const {
  if (host == "localhost" || host == "[::1]") return true;
  in_addr address{};
  return inet_pton(AF_INET, host.c_str(), &address) == 1 && (ntohl(address.s_addr) >> 24) == 127;
}

Result<Url> ParseUrl(std::string_view text) {
  Url url;
  if (text.starts_with("https://")) {
    text.remove_prefix(8);
  } else if (text.starts_with("http://")) {
    text.remove_prefix(7);
    url.https = false;
  } else {
    return Bad("it does not begin with https:// or http://");
  }
  const size_t slash = std::min(text.find('/'), text.size());
  std::string_view authority = text.substr(0, slash);
  url.path = text.substr(slash);
  while (url.path.ends_with('/')) url.path.pop_back();
  const size_t colon = authority.rfind(':');
  if (colon != std::string_view::npos && !authority.ends_with(']')) {
    const std::string_view port = authority.substr(colon + 1);
    url.port = ParseNumber<decltype(url.port)>(port).value_or(0);
    if (url.port < 1 || url.port > 65535) {
      return Bad("its port is not a number from 1 to 65535, or it has a user name");
    }
    authority = authority.substr(0, colon);
  }
  if (!IsHost(authority)) return Bad("its host has invalid characters");
  url.host = authority;
  std::ranges::transform(url.host, url.host.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
  });
  const bool plain = std::ranges::all_of(url.path, [](char c) {
    return IsAlnum(c) || std::string_view("-._~/").find(c) != std::string_view::npos;
  });
  if (!plain || url.path.size() > 1024) {
    return Bad("its path has characters other than letters, digits and -._~/");
  }
  return url;
}

}  // namespace cupel::llm
