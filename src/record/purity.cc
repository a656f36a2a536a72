// The purity rule: a plan depends only on shapes, strides, dtypes, alignment, scalars and the
// device. It must not depend on addresses (of device memory, the stack or the heap) or on how often
// host code has run.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include "base/random.h"
#include "record/candidate.h"
#include "record/clock.h"
#include "record/difference.h"
#include "record/refuse.h"
#include "record/surroundings.h"

namespace cupel::record {

PureRecording RecordPure(const Candidate& candidate, const Request& request) {
  constexpr int kFewestCalls = 24;
  constexpr uint64_t kRepeatOneIn = 3;
  constexpr int kWallFactor = 10;
  const std::chrono::microseconds budget(request.budget_us);
  // The budget is in processor time, so that a busy machine records as often as an idle one.
  const auto start = Now(CLOCK_MONOTONIC), start_cpu = Now(CLOCK_PROCESS_CPUTIME_ID);
  Random random(request.seed);
  Random surroundings = random.Fork("surroundings");
  const auto record = [&](uint64_t seed, Random& around, bool at_first = false) {
    CurrentSession().undefined = at_first ? request.undefined_at_first : request.undefined;
    return candidate.Record(request, seed, Surroundings(around, CurrentSession().left_behind));
  };
  std::vector<uint64_t> seeds;
  std::vector<double> times;
  PureRecording result;
  uint64_t last_seed = 0;
  for (int i = 0; i < request.recordings; ++i) {
    const bool repeat = i > 0 && random.Below(kRepeatOneIn) == 0;
    const uint64_t seed = repeat ? seeds[random.Below(seeds.size())] : random();
    seeds.push_back(seed);
    auto call = record(seed, surroundings, i == 0);
    ++result.recordings;
    result.reads_values |= call.reads_values;
    if (i == 0 && request.recordings > 1) {  // may differ: static guards, lazy workspaces
      result.first = std::move(call.plan);
      continue;
    }
    times.push_back(call.host_us);
    if (times.size() > 1 && call.plan != result.plan) {
      // Repeat both calls with their addresses. If each plan comes out again, the addresses
      // determine it and not the history. In this order, plans that alternate with the state of
      // the heap do not come out again.
      const Random around = surroundings;
      const auto again = [&](uint64_t addresses, const plan::Plan& plan) {
        Random same = around;
        return record(addresses, same).plan == plan;
      };
      const bool by_address = again(last_seed, result.plan) && again(seed, call.plan) &&
                              again(seed, call.plan) && again(last_seed, result.plan);
      const std::string difference = Difference(result.plan, call.plan);
      Refuse("impure",
             by_address ? fmt::format("the plan depends on device addresses: {}", difference)
                        : fmt::format("call {} requests different work than earlier calls with the "
                                      "same arguments: {}",
                                      i + 1, difference),
             request.function);
    }
    // Equal plans may differ in what is undefined. Host code that counts calls may set it late.
    result.plan = std::move(call.plan);
    last_seed = seed;
    if (i + 1 >= kFewestCalls && (Now(CLOCK_PROCESS_CPUTIME_ID) - start_cpu > budget ||
                                  Now(CLOCK_MONOTONIC) - start > kWallFactor * budget)) {
      break;
    }
  }
  if (result.first == result.plan) result.first.reset();
  std::nth_element(times.begin(), times.begin() + static_cast<ptrdiff_t>(times.size() / 2),
                   times.end());
  result.host_us = times[times.size() / 2];
  return result;
}

}  // namespace cupel::record
