// Profiles one call of an accepted candidate on the GPU, with new inputs.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "app/profile/gpu_profile.h"
#include "app/session.h"
#include "judge/launch_text.h"

namespace cupel::app {

/// The source that `image` was built from; empty if it cannot be read.
judge::SourceText SourceOf(const build::Image& image);
/// The files of a candidate; empty for a Python program.
judge::SourceText SourceOf(const assay::Candidate& candidate);

struct CallToProfile {
  const task::Task& task;
  task::Direction direction;
  std::optional<uint64_t> seed;  // of the inputs
  const assay::Judged& judged;   // has a plan
};

/// Profiles the call on one more case with the same shapes. Reserves the GPU while it runs there.
/// `keep` as in GpuCall.
Result<GpuProfile> ProfileCall(Session& session, const CallToProfile& call, int ordinal,
                               const std::filesystem::path& keep);

/// The same as a page of text for the models that propose the next kernel. Empty if profiling
/// fails, so that the run continues. Errors: kCancelled.
Result<std::string> ProfilePage(Session& session, const CallToProfile& call, int ordinal);

}  // namespace cupel::app
