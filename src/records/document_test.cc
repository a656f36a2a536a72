// The tables of members in docs/formats are written from the field lists. The test fails if they
// are out of date; with CUPEL_UPDATE_DOCS=1 it writes them.
// SPDX-License-Identifier: Apache-2.0
#include "records/document.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <set>
#include <sstream>

#include "records/json.h"

namespace cupel::records {
namespace {

constexpr std::string_view kEnd = "<!-- end of members -->";

TEST(Document, TablesInTheFormatsAreUpToDate) {
  std::set<std::string> found;
  for (const char* name : {"verdict", "bench"}) {
    const std::string path = fmt::format("{}/docs/formats/{}.md", CUPEL_SOURCE_DIR, name);
    std::ostringstream read;
    read << std::ifstream(path).rdbuf();
    std::string text = read.str(), now = text;
    for (const auto& [table, want] : Tables()) {
      const std::string begin = fmt::format("<!-- members of {} -->\n", table);
      const size_t at = now.find(begin);
      if (at == std::string::npos) continue;
      found.insert(table);
      const size_t from = at + begin.size(), end = now.find(kEnd, from);
      ASSERT_NE(end, std::string::npos) << table;
      now.replace(from, end - from, want);
    }
    if (std::getenv("CUPEL_UPDATE_DOCS") != nullptr) {
      std::ofstream(path) << now;
      continue;
    }
    EXPECT_EQ(text, now) << "Run records_test with CUPEL_UPDATE_DOCS=1 to write the tables again.";
  }
  for (const auto& [table, want] : Tables()) {
    EXPECT_TRUE(found.contains(table)) << "no document has the members of " << table;
  }
}

}  // namespace
}  // namespace cupel::records
