// SPDX-License-Identifier: Apache-2.0
#include "gpu/ncu_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/parse_number.h"
#include "gpu/csv.h"

namespace cupel::gpu {
namespace {

constexpr size_t kMostKernels = 10'000, kMostRules = 200;
constexpr size_t kMostName = 65536, kMostRuleText = 4096;

/// Parses formatted numbers like "1,234.5" or "12.5 %". nullopt for other text.
std::optional<double> NumberIn(std::string text) {
  std::erase(text, ',');
  text.erase(text.find_last_not_of(" %") + 1);
  const auto value = ParseNumber<double>(text);
  if (!value || !std::isfinite(*value)) return {};
  return value;
}

/// Parses "(256, 1, 1)".
plan::Dim3 DimIn(std::string_view text) {
  uint32_t sizes[3] = {1, 1, 1};
  for (uint32_t& size : sizes) {
    text.remove_prefix(std::min(text.find_first_of("0123456789"), text.size()));
    const auto number = TakeNumber<uint32_t>(text);
    if (!number) break;
    size = *number;
  }
  return {sizes[0], sizes[1], sizes[2]};
}

/// A table below a line of titles. Text before and after it is ignored.
class Table {
 public:
  static Result<Table> Parse(std::string_view text, const char* what) {
    // The titles begin with ID; lines about progress and warnings ("==PROF==") precede them.
    size_t start = 0;
    while (!text.substr(start).starts_with("\"ID\",") && !text.substr(start).starts_with("ID,")) {
      start = text.find('\n', start);
      if (start == std::string_view::npos) {
        return Fail(ErrorCode::kInvalidArgument, fmt::format("{} contains no table", what));
      }
      ++start;
    }
    Table table;
    TRY_ASSIGN(table.rows_, ParseCsv(text.substr(start), what));
    table.titles_ = std::move(table.rows_[0]);
    table.rows_.erase(table.rows_.begin());
    std::erase_if(table.rows_,
                  [&](const CsvRow& row) { return row.size() != table.titles_.size(); });
    return table;
  }

  const CsvRow& titles() const { return titles_; }
  const std::vector<CsvRow>& rows() const { return rows_; }
  /// Empty if there is no such column.
  std::string Cell(const CsvRow& row, const char* title) const {
    const auto found = std::find(titles_.begin(), titles_.end(), title);
    return found == titles_.end() ? std::string()
                                  : row[static_cast<size_t>(found - titles_.begin())];
  }

 private:
  CsvRow titles_;
  std::vector<CsvRow> rows_;
};

bool IsMetric(const std::string& title) {
  // Metrics have names like dram__bytes_read.sum. Titles that describe the launch have spaces or no
  // underscore ("Kernel Name", "CC").
  return title.find('_') != std::string::npos && title.find(' ') == std::string::npos;
}

NcuKernel KernelIn(const Table& table, const CsvRow& row, const CsvRow* units) {
  NcuKernel kernel;
  kernel.id = table.Cell(row, "ID");
  kernel.name = table.Cell(row, "Kernel Name").substr(0, kMostName);
  kernel.grid = DimIn(table.Cell(row, "Grid Size"));
  kernel.block = DimIn(table.Cell(row, "Block Size"));
  for (size_t i = 0; i < row.size(); ++i) {
    if (!IsMetric(table.titles()[i])) continue;
    const auto value = NumberIn(row[i]);
    if (!value) continue;
    kernel.metrics[table.titles()[i]] = {*value, units == nullptr ? std::string() : (*units)[i]};
  }
  return kernel;
}

}  // namespace

std::optional<double> NcuKernel::Get(const std::string& metric) const {
  const auto found = metrics.find(metric);
  if (found == metrics.end()) return {};
  return found->second.value;
}

Result<std::vector<NcuKernel>> ParseNcuRaw(std::string_view text) {
  TRY_ASSIGN(const Table table, Table::Parse(text, "Nsight Compute's raw page"));
  std::vector<NcuKernel> kernels;
  const CsvRow* units = nullptr;
  for (const CsvRow& row : table.rows()) {
    if (table.Cell(row, "ID").empty()) {
      if (units == nullptr) units = &row;
      continue;
    }
    if (kernels.size() == kMostKernels) break;
    kernels.push_back(KernelIn(table, row, units));
  }
  return kernels;
}

Status AddNcuRules(std::string_view text, std::vector<NcuKernel>* kernels) {
  TRY_ASSIGN(const Table table, Table::Parse(text, "Nsight Compute's details page"));
  for (const CsvRow& row : table.rows()) {
    NcuRule rule;
    rule.name = table.Cell(row, "Rule Name");
    rule.text = table.Cell(row, "Rule Description").substr(0, kMostRuleText);
    if (rule.name.empty() || rule.text.empty()) continue;
    rule.section = table.Cell(row, "Section Name");
    rule.type = table.Cell(row, "Rule Type");
    rule.scope = table.Cell(row, "Estimated Speedup Type");
    if (const auto speedup = NumberIn(table.Cell(row, "Estimated Speedup"))) {
      rule.speedup_percent = *speedup;
    }
    const std::string id = table.Cell(row, "ID");
    const auto kernel = std::find_if(kernels->begin(), kernels->end(),
                                     [&](const NcuKernel& known) { return known.id == id; });
    if (kernel == kernels->end() || kernel->rules.size() == kMostRules) continue;
    kernel->rules.push_back(std::move(rule));
  }
  return {};
}

}  // namespace cupel::gpu
