// SPDX-License-Identifier: Apache-2.0
#include "judge/launch_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "base/demangle.h"
#include "base/printable.h"
#include "base/text.h"

namespace cupel::judge {
namespace {

using records::LaunchCounters;

constexpr double kNearlyAll = 0.95;  // of the warps that fit

std::string BaseName(const std::string& path) {
  return std::filesystem::path(path).filename().string();
}

}  // namespace

std::string ShortName(const std::string& kernel) { return Printable(BriefName(kernel)); }

std::string Dims(const plan::Dim3& dim) {
  if (dim.z > 1) return fmt::format("{}x{}x{}", dim.x, dim.y, dim.z);
  return dim.y > 1 ? fmt::format("{}x{}", dim.x, dim.y) : fmt::format("{}", dim.x);
}

std::string Percent(double share) {
  return share > 0 && share < 0.01 ? fmt::format("{:.2g} %", 100 * share)
                                   : fmt::format("{:.0f} %", 100 * share);
}

std::string RemarkText(const Remark& remark, const SourceText& source) {
  if (remark.file.empty() && remark.line == 0) {
    return fmt::format("    {}\n", Printable(remark.message));
  }
  std::string text = fmt::format("    {}:{}  {}\n", Printable(BaseName(remark.file)), remark.line,
                                 Printable(remark.message));
  const std::string quoted = source.Line(remark.file, remark.line);
  if (!quoted.empty()) text += "        | " + Fit(quoted, kProfileWidth - 10) + "\n";
  return text;
}

namespace {

std::string Bottleneck(const LaunchCounters& launch, const SourceText& source) {
  if (launch.bounds.empty()) return "";
  const auto& [bound, us] = launch.bounds[0];
  const double total = std::max(launch.estimated_us, 1e-9);
  if (us < 0.5 * total && launch.bounds.size() > 1 && launch.bounds[1].second < 0.3 * total) {
    return fmt::format(
        "  bottleneck: the launch itself: {:.3g} us of {:.3g} us are overhead, not kernel work\n",
        total - us, total);
  }
  const BoundText text = Describe(bound);
  std::string out = fmt::format("  bottleneck: {}, {:.3g} us alone ({} of the estimate)\n    {}\n",
                                text.name, us, Percent(us / total), text.meaning);
  std::string others;
  for (size_t i = 1; i < std::min<size_t>(launch.bounds.size(), 4); ++i) {
    const auto& [name, other_us] = launch.bounds[i];
    if (other_us < 0.1 * us) break;
    others +=
        fmt::format("{}{} {:.3g} us", others.empty() ? "" : ", ", Describe(name).name, other_us);
  }
  if (!others.empty()) out += fmt::format("    next: {}\n", others);
  for (const Remark& remark : FindBottleneckLines(launch)) out += RemarkText(remark, source);
  return out;
}

std::string OccupancyText(const LaunchCounters& launch, const device::Description& device) {
  const std::string limit = launch.limited_by == "threads"  ? "the block size"
                            : launch.limited_by == "blocks" ? "the number of blocks"
                                                            : launch.limited_by;
  const auto sms = static_cast<uint64_t>(device.sm_count);
  const int most_warps = device.max_threads_per_sm / 32;
  const uint64_t warps = launch.grid.Count() * ((launch.block.Count() + 31) / 32);
  const double of_grid = static_cast<double>(warps) / static_cast<double>(sms * most_warps);
  std::string why = launch.occupancy > 0.999 ? "" : ", limited by " + limit;
  if (of_grid < kNearlyAll * launch.occupancy) {
    why = fmt::format(": the grid has no more ({} would fit{})", Percent(launch.occupancy), why);
  }
  std::string text = fmt::format(
      "  occupancy {} of {} warps per SM{}; {} registers, {} B shared memory, {} threads\n",
      Percent(std::min(of_grid, launch.occupancy)), most_warps, why, launch.registers,
      launch.shared_bytes, launch.block.Count());
  if (launch.grid.Count() < sms) {
    text += fmt::format("  only {} of {} SMs get a block\n", launch.grid.Count(), sms);
  }
  return text;
}

}  // namespace

std::string LaunchText(const LaunchCounters& launch, const device::Description& device,
                       const SourceText& source) {
  std::string out = fmt::format("{}<<<{}, {}>>>: {:.3g} us (estimate)\n", ShortName(launch.kernel),
                                Dims(launch.grid), Dims(launch.block), launch.estimated_us);
  out += Bottleneck(launch, source) + OccupancyText(launch, device);
  const std::vector<Remark> wastes = Wastes(launch);
  if (!wastes.empty()) out += "  waste, the costliest first:\n";
  for (const Remark& remark : wastes) out += RemarkText(remark, source);
  if (launch.blocks_counted < launch.grid.Count()) {
    out += fmt::format("  memory and lines are counted in {} of {} blocks\n", launch.blocks_counted,
                       launch.grid.Count());
  }
  return out + "\n";
}

void SourceText::Add(const std::string& file_name, const std::string& text) {
  std::vector<std::string>& lines = lines_[file_name];
  for (const std::string_view line : SplitLines(text)) lines.emplace_back(line);
}

std::string SourceText::Line(const std::string& file, int line) const {
  // A line table may name the file with its folders.
  auto found = lines_.find(file);
  if (found == lines_.end()) found = lines_.find(BaseName(file));
  if (found == lines_.end() || line < 1 || static_cast<size_t>(line) > found->second.size()) {
    return "";
  }
  const std::string& text = found->second[static_cast<size_t>(line) - 1];
  const size_t first = text.find_first_not_of(" \t");
  return first == std::string::npos ? "" : Printable(text.substr(first));
}

}  // namespace cupel::judge
