// The purity rule: a plan depends only on shapes, strides, dtypes, alignment, scalars and the
// device. It must not depend on addresses (of device memory, the stack or the heap) or on how often
// host code has run.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/random.h"
#include "base/text.h"
#include "plan/codec.h"
#include "record/candidate.h"
#include "record/clock.h"
#include "record/refuse.h"
#include "record/surroundings.h"

namespace cupel::record {
namespace {

/// `line` without the middle of a long text with which `other` begins too: names of templates.
std::string Brief(std::string_view line, std::string_view other) {
  constexpr size_t kKept = 80;
  const auto differs = std::mismatch(line.begin(), line.end(), other.begin(), other.end()).first;
  const size_t word = line.substr(0, static_cast<size_t>(differs - line.begin())).rfind(' ');
  if (word == std::string_view::npos || word < 2 * kKept) return std::string(line);
  return fmt::format("{} …{}", line.substr(0, kKept), line.substr(word));
}

/// Describes the first difference, for messages.
std::string Difference(const plan::Plan& before, const plan::Plan& after) {
  const std::string old_text = plan::Describe(before), new_text = plan::Describe(after);
  const auto old_lines = SplitLines(old_text), new_lines = SplitLines(new_text);
  for (size_t i = 0; i < std::max(old_lines.size(), new_lines.size()); ++i) {
    const std::string_view was = i < old_lines.size() ? old_lines[i] : "nothing";
    const std::string_view is = i < new_lines.size() ? new_lines[i] : "nothing";
    if (was != is) return fmt::format("\"{}\" became \"{}\"", Brief(was, is), Brief(is, was));
  }
  for (size_t i = 0; i < before.nodes.size(); ++i) {
    if (before.nodes[i] == after.nodes[i]) continue;
    const bool launch = std::holds_alternative<plan::Launch>(before.nodes[i].work);
    return fmt::format("{} of \"{}\" changed", launch ? "parameter values" : "details",
                       old_lines[i]);
  }
  return "sizes of buffers changed";
}

}  // namespace

PureRecording RecordPure(const Candidate& candidate, const Request& request) {
  constexpr int kFewestCalls = 24;
  constexpr uint64_t kRepeatOneIn = 3;
  constexpr int kWallFactor = 10;
  const std::chrono::microseconds budget(request.budget_us);
  // The budget is in processor time, so that a busy machine records as often as an idle one.
  const auto start = Now(CLOCK_MONOTONIC), start_cpu = Now(CLOCK_PROCESS_CPUTIME_ID);
  Random random(request.seed);
  Random surroundings = random.Fork("surroundings");
  const auto record = [&](uint64_t seed, Random& around) {
    return candidate.Record(request, seed, Surroundings(around));
  };
  std::vector<uint64_t> seeds;
  std::vector<double> times;
  PureRecording result;
  uint64_t reference_seed = 0;
  for (int i = 0; i < request.recordings; ++i) {
    const bool repeat = i > 0 && random.Below(kRepeatOneIn) == 0;
    const uint64_t seed = repeat ? seeds[random.Below(seeds.size())] : random();
    seeds.push_back(seed);
    auto call = record(seed, surroundings);
    ++result.recordings;
    result.reads_values |= call.reads_values;
    if (i == 0 && request.recordings > 1) {  // may differ: static guards, lazy workspaces
      result.first = std::move(call.plan);
      continue;
    }
    times.push_back(call.host_us);
    if (times.size() == 1) {
      result.plan = std::move(call.plan);
      reference_seed = seed;
    } else if (call.plan != result.plan) {
      // Repeat both calls with their addresses. If each plan comes out again, the addresses
      // determine it and not the history. In this order, plans that alternate with the state of
      // the heap do not come out again.
      const Random around = surroundings;
      const auto again = [&](uint64_t addresses, const plan::Plan& plan) {
        Random same = around;
        return record(addresses, same).plan == plan;
      };
      const bool by_address = again(reference_seed, result.plan) && again(seed, call.plan) &&
                              again(seed, call.plan) && again(reference_seed, result.plan);
      const std::string difference = Difference(result.plan, call.plan);
      Refuse("impure",
             by_address ? fmt::format("the plan depends on device addresses: {}", difference)
                        : fmt::format("call {} requests different work than earlier calls with the "
                                      "same arguments: {}",
                                      i + 1, difference),
             request.function);
    }
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
