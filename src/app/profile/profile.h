// Profiles a kernel: what one call spends its time on, from the emulator's counts or a GPU.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <variant>

#include "app/options.h"
#include "base/events.h"
#include "base/json.h"
#include "base/result.h"
#include "device/device.h"
#include "judge/launch_text.h"
#include "judge/verdict.h"

namespace cupel::app {

struct EmulatorProfile {
  records::Verdict verdict;  // with the counts of each setting
  device::Description device;
  judge::SourceText source;
  bool counted = false;  // false: no kernel was launched at any setting
};
/// The document "cupel.profile/1"; the verdict's document if nothing was counted.
Json ToJson(const EmulatorProfile& profile);

/// One setting of a profile on a GPU.
struct ProfiledSetting {
  std::string id;
  std::string skipped;   // why the task's own reference fails; empty: profiled
  std::string page;      // text
  const Json& document;  // cupel.profile/1, with the settings until now
};
using OnProfiled = std::function<Status(const ProfiledSetting& setting)>;

struct GpuProfileReport {
  Json document;                                // cupel.profile/1
  std::optional<records::Verdict> not_correct;  // set: the profile ended at this verdict
};

using AnyProfile = std::variant<EmulatorProfile, GpuProfileReport>;

/// Profiles on the emulator, or one setting after the other on a GPU. On a GPU, `profiled` is
/// called after each setting; its Error ends the profile.
Result<AnyProfile> Profile(const ProfileOptions& options, Events& events,
                           const OnProfiled& profiled);

}  // namespace cupel::app
