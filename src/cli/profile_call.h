// One call of an accepted candidate, profiled on the GPU on inputs of its own.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "cli/gpu_profile.h"
#include "cli/profile_text.h"
#include "cli/session.h"

namespace cupel::cli {

/// What `image` was built of; empty where it cannot be read.
SourceText SourceOf(const build::Image& image);

struct CallToProfile {
  const task::Task& task;
  task::Direction direction;
  std::optional<uint64_t> seed;  // of the inputs
  const build::Image& image;
  const plan::Plan& plan;
  const std::string& setting;  // whose plan it is: Setting::id
};

/// On one more case, which has the same shapes; nobody else measures on the GPU meanwhile. `keep`
/// as in GpuCall.
Result<GpuProfile> ProfileCall(Session& session, const CallToProfile& call, int ordinal,
                               const std::filesystem::path& keep);

/// The same as a page for whoever writes the next kernel; empty where it cannot be had, which is no
/// reason to end a run. Errors: kCancelled.
Result<std::string> ProfilePage(Session& session, const CallToProfile& call, int ordinal);

}  // namespace cupel::cli
