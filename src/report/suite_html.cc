// SPDX-License-Identifier: Apache-2.0
#include "report/suite_html.h"

#include <fmt/format.h>

#include <string_view>

#include "base/hash.h"
#include "report/suite_page.h"

namespace cupel::report {
namespace {

/// A text that cannot end the script element that it stands in, nor open a comment: inside JSON
/// these characters occur in strings alone, and mean the same when escaped.
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

/// A source of the policy: exactly this script or style.
std::string Allowed(std::string_view text) {
  const std::string hex = Sha256Hex(text);
  std::string bytes;
  for (size_t i = 0; i < hex.size(); i += 2) {
    bytes += static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16));
  }
  return "'sha256-" + Base64Encode(bytes) + "'";
}

/// Samples are for comparisons; a page shows their intervals.
void DropSamples(Json& document) {
  for (Json& item : document["items"]) {
    if (!item.contains("settings")) continue;
    for (Json& setting : item["settings"]) {
      setting.erase("samples_us");
      if (!setting.contains("baselines")) continue;
      for (Json& baseline : setting["baselines"]) baseline.erase("samples_us");
    }
  }
}

}  // namespace

std::string SuiteHtml(const Json& document) {
  Json shown = document;
  DropSamples(shown);
  const std::string script = fmt::format("{}{}{}{}", BaseJs(), PlotsJs(), TableJs(), MainJs());
  return fmt::format(
      "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; "
      "script-src {}; style-src {}; base-uri 'none'; form-action 'none'\">\n"
      "<title>Suite results</title>\n<style>{}</style>\n</head>\n<body>\n{}"
      "<script type=\"application/json\" id=\"data\">{}</script>\n<script>{}</script>\n"
      "</body>\n</html>\n",
      Allowed(script), Allowed(PageCss()), PageCss(), PageHtml(), ForScript(DumpJson(shown)),
      script);
}

}  // namespace cupel::report
