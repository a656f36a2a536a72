// SPDX-License-Identifier: Apache-2.0
#include "app/profile/gpu_profile_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>
#include <utility>
#include <vector>

#include "app/profile/gpu_kernel_text.h"
#include "base/demangle.h"
#include "term/text.h"

namespace cupel::app {
namespace {

using gpu::KernelFacts;

constexpr size_t kLeastDetail = 8;  // fewest lines of a kernel that is shown in detail
constexpr size_t kMostHeads = 8;    // most lines reserved for kernels that are only named

/// The launches of one kernel with one shape.
struct Group {
  const GpuLaunch* slowest = nullptr;
  size_t count = 0;
  double us = 0;
};

double Us(const GpuLaunch& launch) { return launch.facts.duration_us.value_or(0); }

std::vector<Group> GroupsOf(const GpuProfile& profile) {
  std::vector<Group> groups;
  const auto shape = [](const GpuLaunch& launch) {
    const auto& [g, b] = std::tie(launch.facts.grid, launch.facts.block);
    return std::tuple(launch.image, launch.facts.kernel, g.x, g.y, g.z, b.x, b.y, b.z);
  };
  for (const GpuLaunch& launch : profile.launches) {
    auto group = std::find_if(groups.begin(), groups.end(), [&](const Group& known) {
      return shape(*known.slowest) == shape(launch);
    });
    if (group == groups.end()) group = groups.insert(groups.end(), Group{&launch, 0, 0});
    ++group->count;
    group->us += Us(launch);
    if (Us(launch) > Us(*group->slowest)) group->slowest = &launch;
  }
  std::stable_sort(groups.begin(), groups.end(),
                   [](const Group& a, const Group& b) { return a.us > b.us; });
  return groups;
}

std::string Head(const Group& group) {
  const KernelFacts& facts = group.slowest->facts;
  std::string text =
      fmt::format("{}<<<{}, {}>>>", Fit(judge::ShortName(Demangle(facts.kernel)), 60),
                  judge::Dims(facts.grid), judge::Dims(facts.block));
  if (group.count > 1) {
    text += fmt::format(": {} launches", group.count);
    if (facts.duration_us) {
      text +=
          fmt::format(", {:.4g} us together, the slowest {:.4g} us", group.us, *facts.duration_us);
    }
  } else if (facts.duration_us) {
    text += fmt::format(": {:.4g} us", *facts.duration_us);
  }
  return text;
}

Lines Detail(const Group& group, const GpuProfile& profile, const judge::SourceText& source) {
  Lines lines = KernelLines(*group.slowest, profile, source);
  lines.insert(lines.begin(), Head(group));
  if (lines.size() > kMostKernelLines) lines.resize(kMostKernelLines);
  return lines;
}

/// Formats a ratio as "1.25 x".
std::string Times(double ratio) {
  return ratio < 100 ? fmt::format("{:.3g} x", ratio) : fmt::format("{:.0f} x", ratio);
}

/// The lines about the whole call.
Lines Overall(const GpuProfile& profile) {
  Lines lines;
  double us = 0, read = 0, written = 0;
  bool has_bytes = false;
  for (const GpuLaunch& launch : profile.launches) {
    us += Us(launch);
    read += launch.facts.dram_read_bytes.value_or(0);
    written += launch.facts.dram_written_bytes.value_or(0);
    has_bytes = has_bytes || launch.facts.dram_read_bytes.has_value();
  }
  const bool is_ncu = profile.source.starts_with("Nsight");
  if (!profile.source.empty()) {
    lines.push_back(
        fmt::format("{:.4g} us in kernels by {}{}", us, profile.source,
                    is_ncu ? "; caches flushed before each kernel, GPU clocks not locked"
                           : "; inputs were just copied to the GPU, so small ones are in L2"));
  }
  if (profile.launches.size() < profile.all_launches) {
    lines.push_back(fmt::format("the call has {} launches; only {} are profiled",
                                profile.all_launches, profile.launches.size()));
  }
  const auto must = static_cast<double>(profile.must_read_bytes + profile.must_write_bytes);
  std::string moved = fmt::format("the call must read {} and write {}",
                                  Bytes(static_cast<double>(profile.must_read_bytes)),
                                  Bytes(static_cast<double>(profile.must_write_bytes)));
  // One byte per microsecond is one megabyte per second.
  if (us > 0 && must > 0) moved += fmt::format(": {:.4g} GB/s of these", must / us / 1000);
  lines.push_back(std::move(moved));
  if (has_bytes) {
    lines.push_back(fmt::format(
        "DRAM moved {} in and {} out{}", Bytes(read), Bytes(written),
        must > 0 ? ": " + Times((read + written) / must) + " the necessary bytes" : std::string()));
  }
  if (!profile.missing.empty()) {
    for (std::string& line : Wrap("incomplete profile: " + profile.missing, "", 3)) {
      lines.push_back(std::move(line));
    }
  }
  if (!profile.not_emulated.empty()) {
    lines.push_back("no counts by source line: " + profile.not_emulated);
  }
  return lines;
}

}  // namespace

std::string GpuProfileText(const std::string& title, const GpuProfile& profile,
                           const judge::SourceText& source) {
  Lines lines = Wrap(title, "", 2);
  for (std::string& line : Overall(profile)) lines.push_back(std::move(line));
  const std::vector<Group> groups = GroupsOf(profile);
  size_t left = groups.size();
  for (const Group& group : groups) {
    --left;
    // Reserve one line for each of the next kernels, up to kMostHeads.
    const size_t taken = lines.size() + 1 + std::min(left, kMostHeads);
    if (taken + kLeastDetail > kPageLines) {
      if (lines.size() + 1 == kPageLines && left > 0) {
        lines.push_back(fmt::format("… and {} more kernels", left + 1));
        break;
      }
      lines.push_back(Head(group));
      continue;
    }
    Lines detail = Detail(group, profile, source);
    if (taken + detail.size() > kPageLines) detail.resize(kPageLines - taken);
    lines.emplace_back();
    lines.insert(lines.end(), detail.begin(), detail.end());
  }
  std::string page;
  for (const std::string& line : lines) {
    page += Fit(Printable(line), judge::kProfileWidth) + "\n";
  }
  return page;
}

}  // namespace cupel::app
