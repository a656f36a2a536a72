// Tested by tests/e2e/test_exploration.py.
// SPDX-License-Identifier: Apache-2.0
#include "assay/address_runs.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <utility>

#include "assay/trial.h"
#include "base/text.h"
#include "os/memory.h"
#include "task/tensor.h"

namespace cupel::assay {
namespace {

constexpr uint64_t kAddressBlocks = 24;                    // of a launch, corners among them
constexpr uint64_t kAddressInstructions = 3'000'000;       // warp instructions of a launch
constexpr uint64_t kMostTouchedBytes = uint64_t{2} << 30;  // by the stores of such a run
constexpr std::chrono::seconds kAddressDeadline{60};       // the instructions are the limit
/// Of the bytes of the results, a kernel that fills them stores at least this share, as far as a
/// sample of its blocks shows.
constexpr double kSampleShare = 0.5;
/// The blocks do the same work: none is idle, and none does what others have prepared.
constexpr double kMostImbalance = 1.25;
/// The same where it is right: the blocks of a corner may store less than others.
constexpr double kUsualShare = 0.8;

/// Findings that depend on addresses alone.
bool IsAboutAddresses(const records::Finding& finding) {
  return finding.severity == records::Severity::kError &&
         (finding.code == "out_of_bounds" || finding.code == "foreign_buffer" ||
          finding.code == "misaligned" || finding.code == "wrapped_index");
}

std::string TextOf(const records::Finding& finding) {
  std::string text = AfterColon(finding.message);
  // The message about a wrapped index names the line of the arithmetic.
  if (finding.line > 0 && finding.code != "wrapped_index") {
    const std::string file = std::filesystem::path(finding.file).filename().string();
    text += file.empty() ? fmt::format(" (line {})", finding.line)
                         : fmt::format(" ({}:{})", file, finding.line);
  }
  return text;
}

/// Whether what blocks store follows from sizes alone. In clusters one block may store for all,
/// integers may say how much there is to store, and so may an earlier launch.
bool IsFilledByOneLaunch(const RecordedCall& call) {
  const auto has_clusters = [](const auto& image) {
    return image->ptx.find("cluster") != std::string::npos;
  };
  return call.plan->nodes.size() == 1 &&
         std::holds_alternative<plan::Launch>(call.plan->nodes[0].work) &&
         std::ranges::none_of(*call.images, has_clusters) &&
         std::ranges::all_of(task::TensorLeaves(*call.args),
                             [](const task::Tensor* tensor) { return IsFloating(tensor->dtype); });
}

}  // namespace

Result<AddressRuns::Seen> AddressRuns::Run(const RecordedCall& call) {
  Seen seen;
  if (const Status used = state_.loaded().Use(*call.images); !used) {
    if (IsUnsupportedCode(used.error())) return seen;
    return tl::unexpected(used.error());
  }
  engine::RunOptions options;
  options.seed = random_();
  options.counters = true;
  options.addresses_only = true;
  options.max_blocks = kAddressBlocks;
  options.max_warp_instructions = options.max_block_warp_instructions = kAddressInstructions;
  const uint64_t before = os::ResidentBytes();
  options.cancelled = [until = EndAfter(kAddressDeadline, parts_.stop), before] {
    return until() || os::ResidentBytes() > before + kMostTouchedBytes;
  };
  auto run = state_.loaded().program().Execute(*call.plan, task::StoragesOf(*call.args), options);
  if (!run) {
    if (IsOurs(run.error(), parts_.stop)) return tl::unexpected(run.error());
    return seen;  // too slow, or too large
  }
  seen.ended = run->completed;
  seen.results =
      static_cast<double>(std::max<uint64_t>(plan::LeastTraffic(*call.plan).written_bytes, 1));
  seen.run = run->emulated_blocks;
  seen.all = run->all_blocks;
  for (const records::LaunchCounters& launch : run->counters.launches) {
    seen.stored += static_cast<double>(launch.global_store_bytes);
    seen.is_even &= launch.imbalance < kMostImbalance && launch.global_atomics == 0;
  }
  const auto finding = std::ranges::find_if(run->findings, IsAboutAddresses);
  if (finding != run->findings.end()) seen.finding = *finding;
  return seen;
}

Result<std::optional<AddressRuns::Fault>> AddressRuns::FaultAt(
    const RecordedCall& call, std::span<const RecordedCall> judged) {
  using Outcome = std::optional<Fault>;
  TRY_ASSIGN(const Seen seen, Run(call));
  const bool is_wrong = seen.finding.has_value();
  const double least = seen.run == seen.all ? 1 : kSampleShare;
  const bool lacks = seen.ended && seen.is_even && !is_wrong && !judged.empty() &&
                     IsFilledByOneLaunch(call) && seen.stored / seen.results < least;
  if (!is_wrong && !lacks) return Outcome();
  for (const RecordedCall& small : judged) {
    TRY_ASSIGN(const Seen control, Run(small));
    if (!control.ended || control.finding ||
        (lacks && control.stored / control.results < kUsualShare))
      return Outcome();
  }
  if (is_wrong) {
    return Outcome(
        {seen.finding->code, TextOf(*seen.finding), seen.finding->where, seen.finding->line});
  }
  return Outcome({"unwritten_output",
                  fmt::format("the launches store {:.3g} MB, judged by {} of {} blocks, but the "
                              "results have {:.3g} MB. A grid that is limited needs a loop",
                              seen.stored / 1e6, seen.run, seen.all, seen.results / 1e6),
                  "", 0});
}

}  // namespace cupel::assay
