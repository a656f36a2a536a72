// SPDX-License-Identifier: Apache-2.0
#include "report/run/html.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "os/temp_dir.h"
#include "report/run/run_testing.h"

namespace cupel::report {
namespace {

using testing::HasSubstr;
using testing::Not;

/// The data block of a page.
Json DataOf(const std::string& html) {
  const std::string begin = "<script type=\"application/json\" id=\"data\">";
  const size_t from = html.find(begin) + begin.size();
  return *ParseJson(html.substr(from, html.find("</script>", from) - from), "data");
}

class RunHtmlTest : public testing::Test {
 protected:
  RunHtmlTest()
      : folder_(TestFolder()),
        archive_(MakeTestRun(folder_.path() / "run.cupel")),
        run_(*ReadRun(archive_)) {}
  Json Page(const RunPageLimits& limits) { return DataOf(*RunHtml(run_, archive_, limits)); }

  os::TempDir folder_;
  archive::Archive archive_;
  report::Run run_;
};

TEST_F(RunHtmlTest, EmbedsUntrustedTextsOnlyAsData) {
  const std::string html = *RunHtml(run_, archive_);
  EXPECT_THAT(html, Not(HasSubstr("<img")));
  EXPECT_THAT(html, Not(HasSubstr("document.title='pwned'</script>")));
  const Json data = DataOf(html);
  const Json& best = data["candidates"][33];
  EXPECT_EQ(data["texts"][best["source"].get<size_t>()], *archive_.Source(34));
  EXPECT_EQ(data["texts"][best["thought"].get<size_t>()],
            std::string("use shared memory ") + kHostile);
  const Json& exchange = data["exchanges"][0];
  EXPECT_EQ(exchange["candidate"], 2);
  EXPECT_EQ(data["texts"][exchange["asked"][0]["text"].get<size_t>()], "You write kernels.");
  EXPECT_EQ(data["texts"][exchange["answer"].get<size_t>()], std::string("answer ") + kHostile);
  EXPECT_EQ(data["left_out"]["candidates"], 0);
  EXPECT_EQ(data["left_out"]["texts"], 0);
}

TEST_F(RunHtmlTest, KeepsTheBestsLineageIfThereAreTooManyCandidates) {
  RunPageLimits limits;
  limits.candidates = 8;
  limits.exchanges = 3;
  const Json data = Page(limits);
  std::vector<int64_t> ids;
  for (const Json& candidate : data["candidates"]) ids.push_back(candidate["candidate"]);
  EXPECT_THAT(ids, testing::IsSupersetOf(run_.lineage));
  EXPECT_EQ(ids.size(), 8u);
  EXPECT_EQ(data["left_out"]["candidates"], 33);
  EXPECT_EQ(data["exchanges"].size(), 3u);
  EXPECT_EQ(data["left_out"]["exchanges"], 81 - 3);
}

TEST_F(RunHtmlTest, CutsAndLeavesOutLongTexts) {
  RunPageLimits limits;
  limits.text_bytes = 40;
  limits.all_bytes = 100;
  const Json data = Page(limits);
  size_t bytes = 0;
  for (const Json& text : data["texts"]) bytes += text.get<std::string>().size();
  EXPECT_LE(bytes, 100u);
  EXPECT_GT(data["left_out"]["texts"], 0);
}

}  // namespace
}  // namespace cupel::report
