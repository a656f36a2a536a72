// SPDX-License-Identifier: Apache-2.0
#include "llm/sse.h"

#include <gtest/gtest.h>

#include <utility>
#include <vector>

namespace cupel::llm {
namespace {

using Events = std::vector<std::pair<std::string, std::string>>;

/// The events of `bytes`, fed in two parts that are split at `split`.
Events Read(std::string_view bytes, size_t split) {
  Events events;
  SseParser parser([&](std::string_view event, std::string_view data) {
    events.emplace_back(event, data);
    return true;
  });
  EXPECT_TRUE(parser.Feed(bytes.substr(0, split)).value());
  EXPECT_TRUE(parser.Feed(bytes.substr(split)).value());
  EXPECT_TRUE(parser.Finish().value());
  return events;
}

TEST(SseTest, EverySplitGivesTheSameEvents) {
  const std::string stream =
      "\xef\xbb\xbf: a comment\r\nevent: one\r\ndata: "
      "{\"a\":1}\r\n\r\n:keep-alive\n\ndata:x\ndata: "
      " y\n\rid: 7\rretry: 10\rdata\r\r\nevent: lost\n\ndata: last";
  const Events wanted = {
      {"one", "{\"a\":1}"}, {"message", "x\n y"}, {"message", ""}, {"message", "last"}};
  for (size_t split = 0; split <= stream.size(); ++split) {
    EXPECT_EQ(Read(stream, split), wanted) << split;
  }
}

TEST(SseTest, LimitsLinesAndEvents) {
  SseParser lines([](auto, auto) { return true; }, 100);
  EXPECT_TRUE(lines.Feed("data: " + std::string(50, 'x')));
  EXPECT_FALSE(lines.Feed(std::string(50, 'x')));
  SseParser events([](auto, auto) { return true; }, 100);
  EXPECT_TRUE(events.Feed("data: " + std::string(60, 'x') + "\n"));
  EXPECT_FALSE(events.Feed("data: " + std::string(60, 'x') + "\n"));
}

TEST(SseTest, StopsWhenTheSinkReturnsFalse) {
  int seen = 0;
  SseParser parser([&](auto, auto) { return ++seen < 2; });
  EXPECT_FALSE(parser.Feed("data: 1\n\ndata: 2\n\ndata: 3\n\n").value());
  EXPECT_FALSE(parser.Feed("data: 4\n\n").value());
  EXPECT_EQ(seen, 2);
}

}  // namespace
}  // namespace cupel::llm
