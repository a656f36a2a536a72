// SPDX-License-Identifier: Apache-2.0
#include "report/page/page.h"

#include <fmt/format.h>

#include "base/hash.h"

namespace cupel::report {
namespace {

/// Escapes JSON so that it cannot end its script element or open a comment. In JSON these
/// characters only occur in strings, where the escaped form means the same.
std::string ForScript(const std::string& json) {
  std::string safe;
  safe.reserve(json.size());
  for (const char c : json) {
    switch (c) {
      case '<':
        safe += "\\u003c";
        break;
      case '>':
        safe += "\\u003e";
        break;
      case '&':
        safe += "\\u0026";
        break;
      default:
        safe += c;
    }
  }
  return safe;
}

/// A source expression of the Content-Security-Policy that allows exactly this script or style.
std::string Allowed(std::string_view text) {
  const std::string hex = Sha256Hex(text);
  std::string bytes;
  for (size_t i = 0; i < hex.size(); i += 2) {
    bytes += static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16));
  }
  return "'sha256-" + Base64Encode(bytes) + "'";
}

}  // namespace

std::string SelfContainedPage(std::string_view title, std::string_view css, std::string_view body,
                              const Json& data, std::string_view script) {
  return fmt::format(
      "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; "
      "script-src {}; style-src {}; base-uri 'none'; form-action 'none'\">\n"
      "<title>{}</title>\n<style>{}</style>\n</head>\n<body>\n{}"
      "<script type=\"application/json\" id=\"data\">{}</script>\n<script>{}</script>\n"
      "</body>\n</html>\n",
      Allowed(script), Allowed(css), title, css, body, ForScript(DumpJson(data)), script);
}

}  // namespace cupel::report
