// Messages about timing between cupel and its GPU worker survive a round trip, and invalid ones are
// rejected.
// SPDX-License-Identifier: Apache-2.0
#include "gpu/timing_protocol.h"

#include <gtest/gtest.h>

#include <limits>

#include "base/json.h"
#include "records/json.h"

namespace cupel::gpu {
namespace {

engine::TakeRequest SomeRequest() {
  engine::TakeRequest request;
  request.entrant = 2;
  request.mode = engine::TimingMode::kHost;
  request.set = 1;
  request.count = 21;
  request.changes = {{0, 4096, std::string("\0\xff\x80\n", 4)}, {3, 0, "x"}};
  request.keep_outputs = true;
  return request;
}

/// Converts to text and back, as the transport does.
Json RoundTrip(const Json& json) {
  auto parsed = ParseJson(DumpJson(json), "test");
  EXPECT_TRUE(parsed.has_value());
  return parsed.value_or(Json());
}

TEST(TimingProtocol, RoundTripsRequests) {
  for (const auto mode :
       {engine::TimingMode::kCold, engine::TimingMode::kWarm, engine::TimingMode::kHost}) {
    engine::TakeRequest wanted = SomeRequest();
    wanted.mode = mode;
    const auto request = TakeRequestFromJson(RoundTrip(ToJson(wanted)));
    ASSERT_TRUE(request.has_value()) << request.error().message;
    EXPECT_EQ(request->entrant, 2u);
    EXPECT_EQ(request->mode, mode);
    EXPECT_EQ(request->set, 1);
    EXPECT_EQ(request->count, 21);
    EXPECT_TRUE(request->keep_outputs);
    ASSERT_EQ(request->changes.size(), 2u);
    EXPECT_EQ(request->changes[0].offset, 4096u);
    EXPECT_EQ(request->changes[0].bytes, std::string("\0\xff\x80\n", 4));
    EXPECT_EQ(request->changes[1].argument, 3);
  }
}

TEST(TimingProtocol, RejectsInvalidRequests) {
  const Json good = ToJson(SomeRequest());
  ASSERT_TRUE(TakeRequestFromJson(good).has_value());
  const Json change = {0, 0, "AAAA"};
  std::vector<Json> bad{Json{{"take", -1}},
                        Json{{"take", "0"}},
                        Json{{"take", int64_t{1} << 40}},
                        Json{{"mode", "lukewarm"}},
                        Json{{"mode", 1}},
                        Json{{"set", -1}},
                        Json{{"count", 1e300}},
                        Json{{"count", -1}},
                        Json{{"keep", 1}},
                        Json{{"changes", 3}},
                        Json{{"changes", Json::array({change, Json::object()})}}};
  for (const char* hostile :
       {R"([-1, 0, "AAAA"])", R"([0, -1, "AAAA"])", R"([0, 0, "A"])", R"([0, 0, 1])", R"([0, 0])",
        R"([0.5, 0, "AAAA"])", R"([4294967296, 0, "AAAA"])", R"([0, 18446744073709551615, "AA=="])",
        R"([0, 0, "AAAA", 1])"}) {
    bad.push_back({{"changes", Json::array({Json::parse(hostile)})}});
  }
  Json many = Json::array();
  for (int i = 0; i < 1000; ++i) many.push_back(change);
  bad.push_back({{"changes", many}});
  for (const Json& part : bad) {
    Json invalid = good;
    invalid.update(part);
    EXPECT_FALSE(TakeRequestFromJson(invalid).has_value()) << part.dump();
  }
  for (const auto& [key, value] : good.items()) {
    Json incomplete = good;
    incomplete.erase(key);
    EXPECT_FALSE(TakeRequestFromJson(incomplete).has_value()) << "without " << key;
  }
  for (const Json& json : {Json(), Json(3), Json::array()}) {
    EXPECT_FALSE(TakeRequestFromJson(json).has_value());
  }
}

TEST(TimingProtocol, RoundTripsStates) {
  const records::GpuState wanted{1980, 2619, 55, 431.5, {"power cap", "thermal slowdown"}, 2};
  const Json json = RoundTrip(records::ToJson(wanted));
  const auto state = records::ReadGpuState(json, "state");
  ASSERT_TRUE(state.has_value()) << state.error().message;
  EXPECT_EQ(state->sm_mhz, 1980);
  EXPECT_EQ(state->memory_mhz, 2619);
  EXPECT_EQ(state->temperature_c, 55);
  EXPECT_EQ(state->power_w, 431.5);
  EXPECT_EQ(state->throttled_by, wanted.throttled_by);
  EXPECT_EQ(state->processes, 2);
  for (const Json& bad :
       {Json{{"sm_mhz", -1}}, Json{{"power_w", "much"}}, Json{{"power_w", -1}},
        Json{{"throttled_by", {1}}}, Json{{"throttled_by", Json::object()}},
        Json{{"throttled_by", std::vector<std::string>(1000, "x")}}, Json{{"processes", 0.5}}}) {
    Json invalid = json;
    invalid.update(bad);
    EXPECT_FALSE(records::ReadGpuState(invalid, "state").has_value()) << bad.dump();
  }
}

TEST(TimingProtocol, RoundTripsClockKernels) {
  engine::ClockKernels wanted{"flush text", "flush", 1056, 256, uint64_t{5} << 32,
                              "probe text", "probe", 132,  64,  1000};
  const Json json = RoundTrip(ToJson(wanted));
  const auto kernels = ClockKernelsFromJson(json);
  ASSERT_TRUE(kernels.has_value()) << kernels.error().message;
  EXPECT_EQ(kernels->flush_ptx, "flush text");
  EXPECT_EQ(kernels->flush_entry, "flush");
  EXPECT_EQ(kernels->flush_grid, 1056u);
  EXPECT_EQ(kernels->flush_block, 256u);
  EXPECT_EQ(kernels->flush_bytes, uint64_t{5} << 32);
  EXPECT_EQ(kernels->probe_ptx, "probe text");
  EXPECT_EQ(kernels->probe_entry, "probe");
  EXPECT_EQ(kernels->probe_grid, 132u);
  EXPECT_EQ(kernels->probe_block, 64u);
  EXPECT_EQ(kernels->probe_iterations, 1000u);
  for (const Json& bad : {Json{{"flush_bytes", -1}}, Json{{"flush_grid", -1}},
                          Json{{"probe_block", int64_t{1} << 32}}, Json{{"probe_ptx", 1}}}) {
    Json invalid = json;
    invalid.update(bad);
    EXPECT_FALSE(ClockKernelsFromJson(invalid).has_value()) << bad.dump();
  }
}

TEST(TimingProtocol, RoundTripsEnergy) {
  const Json json = RoundTrip(records::ToJson(records::EnergyUse{0.25, 500, 2000}));
  const auto use = records::ReadEnergyUse(json, "energy");
  ASSERT_TRUE(use.has_value());
  EXPECT_EQ(use->joules, 0.25);
  EXPECT_EQ(use->watts, 500);
  EXPECT_EQ(use->calls, 2000);
  for (const Json& bad : {Json{{"joules", -1}}, Json{{"watts", Json()}}, Json{{"calls", "many"}}}) {
    Json invalid = json;
    invalid.update(bad);
    EXPECT_FALSE(records::ReadEnergyUse(invalid, "energy").has_value()) << bad.dump();
  }
}

TEST(TimingProtocol, AcceptsOnlyFiniteNonNegativeTimes) {
  const auto times = TimesFromJson(Json::parse("[0, 1.5, 3]"), 3);
  ASSERT_TRUE(times.has_value());
  EXPECT_EQ(*times, (std::vector<double>{0, 1.5, 3}));
  EXPECT_TRUE(TimesFromJson(Json::array(), 3).has_value());
  for (const char* bad :
       {"[0, 1, 2, 3]", "[-1]", "[null]", "[\"1\"]", "[[1]]", "{}", "3", "null"}) {
    EXPECT_FALSE(TimesFromJson(Json::parse(bad), 3).has_value()) << bad;
  }
  for (const double bad :
       {std::numeric_limits<double>::infinity(), std::numeric_limits<double>::quiet_NaN()}) {
    EXPECT_FALSE(TimesFromJson(Json::array({bad}), 3).has_value()) << bad;
  }
}

}  // namespace
}  // namespace cupel::gpu
