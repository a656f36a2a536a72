// Kernels that are wrong only because --use_fast_math, the default for .cu files, replaced accurate
// functions.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>

#include "app/options.h"
#include "app/session.h"
#include "assay/assay.h"
#include "base/events.h"

namespace cupel::app {

inline constexpr const char* kFastMathReason = "fast_math";

/// If wrong numbers alone reject the candidate, and it was compiled with the default flags: judges
/// it again without fast math. If it is right then, the verdict's first reason says so.
Status TryWithoutFastMath(const std::filesystem::path& kernel, const Common& common,
                          Compile compile, const assay::Question& question, Session& session,
                          Events& events, records::Verdict& verdict);

}  // namespace cupel::app
