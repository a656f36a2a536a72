// The JSON form of records: writes, reads and documents them, each from its one field list
// (fields.h, *_fields.h).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json_fwd.h"
#include "base/result.h"
#include "records/bench.h"
#include "records/read_options.h"
#include "records/verdict.h"

namespace cupel::records {

Json ToJson(const Finding& finding);
Json ToJson(const Reason& reason);
Json ToJson(const std::vector<Reason>& reasons);
Json ToJson(const Control& control);
Json ToJson(const GpuState& state);
Json ToJson(const EnergyUse& use);
Json ToJson(const Ceilings& ceilings);
/// At most `most_lines` of its lines.
Json ToJson(const LaunchCounters& launch, size_t most_lines = 16);
Json ToJson(const build::KernelResources& resources);
Json ToJson(const SettingReport& setting);
Json ToJson(const stats::Interval& interval);
Json ToJson(const std::vector<MeanRatio>& means);
Json ToJson(const SettingTimes& times);
Json ToJson(const Bench& bench);

/// "cupel.verdict/1". All times are inside "timing", so two runs with one seed differ only there.
/// Includes the digest (digest.h), so the result must not be changed.
Json ToJson(const Verdict& verdict);

/// Readers of untrusted JSON. `what` names it in errors (kInvalidArgument), which say which member
/// is wrong. Tolerant readers fail only if the whole is not an object.
Result<Verdict> ReadVerdict(const Json& json, std::string_view what, const ReadOptions& options);
Result<Bench> ReadBench(const Json& json, std::string_view what, const ReadOptions& options);
Result<Ceilings> ReadCeilings(const Json& json, std::string_view what);
Result<EnergyUse> ReadEnergyUse(const Json& json, std::string_view what);
Result<GpuState> ReadGpuState(const Json& json, std::string_view what);
Result<Finding> ReadFinding(const Json& json, std::string_view what);
Result<Reason> ReadReason(const Json& json, std::string_view what, const ReadOptions& options);

/// The tables of docs/formats/verdict.md and bench.md: name of the table, and Markdown.
std::vector<std::pair<std::string, std::string>> Tables();

}  // namespace cupel::records
