// SPDX-License-Identifier: Apache-2.0
#include "report/suite/html.h"

#include <fmt/format.h>

#include "report/page/page.h"
#include "report/page/page_parts.h"

namespace cupel::report {
namespace {

/// Removes the samples, which only comparisons need. The page shows intervals.
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
  return SelfContainedPage(
      "Suite results", CommonCss(), SuiteBodyHtml(), shown,
      fmt::format("{}{}{}{}{}{}{}", DomJs(), AxesJs(), ListingJs(), SuiteBaseJs(), SuitePlotsJs(),
                  SuiteTableJs(), SuiteMainJs()));
}

}  // namespace cupel::report
