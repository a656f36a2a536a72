// SPDX-License-Identifier: Apache-2.0
#include "records/json.h"

#include <algorithm>

#include "records/bench_fields.h"
#include "records/digest.h"
#include "records/document.h"
#include "records/read.h"
#include "records/verdict_fields.h"
#include "records/write.h"

namespace cupel::records {

Json ToJson(const Finding& finding) { return Write(finding); }
Json ToJson(const Reason& reason) { return Write(reason); }
Json ToJson(const std::vector<Reason>& reasons) { return Write(reasons); }
Json ToJson(const Control& control) { return Write(control); }
Json ToJson(const GpuState& state) { return Write(state); }
Json ToJson(const EnergyUse& use) { return Write(use); }
Json ToJson(const Ceilings& ceilings) { return Write(ceilings); }
Json ToJson(const build::KernelResources& resources) { return Write(resources); }
Json ToJson(const SettingReport& setting) { return Write(setting); }
Json ToJson(const stats::Interval& interval) { return Write(interval); }
Json ToJson(const std::vector<MeanRatio>& means) { return Write(means); }
Json ToJson(const SettingTimes& times) { return Write(times); }
Json ToJson(const Bench& bench) { return Write(bench); }

Json ToJson(const LaunchCounters& launch, size_t most_lines) {
  if (launch.lines.size() <= most_lines) return Write(launch);
  LaunchCounters shortened = launch;
  shortened.lines.resize(most_lines);
  return Write(shortened);
}

Json ToJson(const Verdict& verdict) {
  Json record = Json::object();
  Writer writer(record);
  Fields<Verdict>::Visit(writer, verdict);
  AddDigest(record);
  return record;
}

Result<Verdict> ReadVerdict(const Json& json, std::string_view what, const ReadOptions& options) {
  TRY(CheckSchema(json, kVerdictSchema, what, options));
  return ReadAll<Verdict>(json, what, options);
}

Result<Bench> ReadBench(const Json& json, std::string_view what, const ReadOptions& options) {
  TRY(CheckSchema(json, kBenchSchema, what, options));
  return ReadAll<Bench>(json, what, options);
}

Result<Ceilings> ReadCeilings(const Json& json, std::string_view what) {
  return ReadAll<Ceilings>(json, what, {});
}
Result<EnergyUse> ReadEnergyUse(const Json& json, std::string_view what) {
  return ReadAll<EnergyUse>(json, what, {});
}
Result<GpuState> ReadGpuState(const Json& json, std::string_view what) {
  return ReadAll<GpuState>(json, what, {});
}
Result<Finding> ReadFinding(const Json& json, std::string_view what) {
  return ReadAll<Finding>(json, what, {});
}
Result<Reason> ReadReason(const Json& json, std::string_view what, const ReadOptions& options) {
  return ReadAll<Reason>(json, what, options);
}

std::vector<std::pair<std::string, std::string>> Tables() {
  return {{"verdict", Documentation<Verdict>()},
          {"reason", Documentation<Reason>()},
          {"setting", Documentation<SettingReport>()},
          {"trial", Documentation<TrialReport>()},
          {"output", Documentation<Comparison>()},
          {"control", Documentation<Control>()},
          {"case", Documentation<UsedCase>()},
          {"distributions", Documentation<OtherInputs>()},
          {"exploration", Documentation<Exploration>()},
          {"proof", Documentation<ProofResult>()},
          {"finding", Documentation<Finding>()},
          {"established", Documentation<Established>()},
          {"established output", Documentation<EstablishedOutput>()},
          {"launch", Documentation<LaunchCounters>()},
          {"line", Documentation<LineCounters>()},
          {"file", Documentation<build::ListedFile>()},
          {"resources", Documentation<build::KernelResources>()},
          {"asked", Documentation<Asked>()},
          {"sandbox", Documentation<os::SandboxReport>()},
          {"gpu", Documentation<GpuState>()},
          {"bench", Documentation<Bench>()},
          {"ceilings", Documentation<Ceilings>()},
          {"times", Documentation<SettingTimes>()},
          {"timing", Documentation<Timing>()},
          {"comparison", Documentation<TimeComparison>()}};
}

}  // namespace cupel::records
