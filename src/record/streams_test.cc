// SPDX-License-Identifier: Apache-2.0
#include "record/streams.h"

#include <gtest/gtest.h>

namespace cupel::record {
namespace {

class StreamsTest : public testing::Test {
 protected:
  StreamsTest() { streams_.BeginCall(); }
  Frontier Work(uint64_t stream, int node) {
    Frontier before = streams_.Depend(stream);
    streams_.Done(stream, {node});
    return before;
  }
  Streams streams_;
};

TEST_F(StreamsTest, WorkOnOneStreamFormsAChainAfterTheCallersWork) {
  EXPECT_EQ(Work(kLegacyStream, 0), Frontier{kStart});
  EXPECT_EQ(Work(kLegacyStream, 1), Frontier{0});
  EXPECT_EQ(streams_.End(), Frontier{1});
}

TEST_F(StreamsTest, LegacyStreamAndBlockingStreamsWaitForEachOther) {
  const uint64_t a = streams_.CreateStream(true, 0);
  const uint64_t b = streams_.CreateStream(true, 0);
  EXPECT_EQ(Work(a, 0), Frontier{kStart});
  EXPECT_EQ(Work(b, 1), Frontier{kStart});
  EXPECT_EQ(Work(kLegacyStream, 2), (Frontier{kStart, 0, 1}));
  EXPECT_EQ(Work(a, 3), Frontier{2});
  EXPECT_EQ(streams_.End(), (Frontier{2, 3}));
}

TEST_F(StreamsTest, TheCallersWorkMayBeOnAnotherStream) {
  const uint64_t callers = streams_.CreateStream(false, 0);
  streams_.BeginCall(callers);
  EXPECT_EQ(Work(callers, 0), Frontier{kStart});
  EXPECT_EQ(Work(kLegacyStream, 1), Frontier{});  // does not wait for the caller
  EXPECT_EQ(streams_.End(), Frontier{0});         // nor the caller for it
}

TEST_F(StreamsTest, NonBlockingStreamsWaitForEventsOnly) {
  const uint64_t side = streams_.CreateStream(false, 0);
  const uint64_t event = streams_.CreateEvent();
  Work(kLegacyStream, 0);
  EXPECT_EQ(Work(side, 1), Frontier{});
  EXPECT_EQ(streams_.End(), Frontier{0});
  streams_.Record(event, side);
  streams_.Wait(kLegacyStream, event);
  EXPECT_EQ(streams_.End(), (Frontier{0, 1}));
}

TEST_F(StreamsTest, LaterWorkFollowsWorkThatTheHostWaitedFor) {
  const uint64_t side = streams_.CreateStream(false, 0);
  const uint64_t other = streams_.CreateStream(false, 0);
  Work(side, 0);
  streams_.SynchronizeStream(side);
  EXPECT_EQ(Work(other, 1), Frontier{0});
  EXPECT_EQ(streams_.End(), (Frontier{kStart, 0}));
}

TEST_F(StreamsTest, DestroyedBlockingStreamsKeepTheirPlaceInTheOrder) {
  const uint64_t stream = streams_.CreateStream(true, 0);
  Work(stream, 0);
  EXPECT_TRUE(streams_.DestroyStream(stream));
  EXPECT_FALSE(streams_.DestroyStream(stream));
  EXPECT_EQ(streams_.End(), (Frontier{kStart, 0}));
}

TEST_F(StreamsTest, EventsOfEarlierCallsAddNoDependency) {
  const uint64_t event = streams_.CreateEvent();
  Work(kLegacyStream, 7);
  streams_.Record(event, kLegacyStream);
  streams_.BeginCall();
  const uint64_t side = streams_.CreateStream(false, 0);
  streams_.Wait(side, event);
  EXPECT_EQ(streams_.Depend(side), Frontier{});
}

TEST_F(StreamsTest, CaptureSpreadsThroughEvents) {
  const uint64_t origin = streams_.CreateStream(true, 0);
  const uint64_t side = streams_.CreateStream(false, 0);
  const uint64_t event = streams_.CreateEvent();
  EXPECT_FALSE(streams_.BeginCapture(kLegacyStream, 0));
  ASSERT_TRUE(streams_.BeginCapture(origin, 0));
  EXPECT_EQ(streams_.CaptureDepend(origin), Frontier{});
  streams_.CaptureDone(origin, 0);
  streams_.Record(event, origin);
  streams_.Wait(side, event);
  EXPECT_EQ(streams_.CaptureOf(side), 0);
  EXPECT_EQ(streams_.CaptureDepend(side), Frontier{0});
  EXPECT_FALSE(streams_.EndCapture(side));
  const auto captured = streams_.EndCapture(origin);
  ASSERT_TRUE(captured);
  EXPECT_EQ(captured->end, Frontier{0});
  EXPECT_FALSE(streams_.AnyCapture());
}

}  // namespace
}  // namespace cupel::record
