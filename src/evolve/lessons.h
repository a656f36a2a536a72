// Summarises a verdict for the repair of a kernel: each reason with its source line, actual and
// expected values, and the probable cause.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "build/image.h"
#include "judge/verdict.h"

namespace cupel::evolve {

inline constexpr size_t kMaxLessons = 2048;  // bytes

/// At most kMaxLessons bytes of printable lines; empty for an accepted kernel. Names the settings
/// of the task by their sizes. Held-out and derived settings are "other sizes": the text gives
/// neither their sizes nor numbers that reveal them (indices, counts, offsets), so that no kernel
/// is written for them. Omits seeds. Shows only the first values of wrong outputs. `failure`, of a
/// kernel that does not compile, has more errors than the verdict.
std::string Lessons(const records::Verdict& verdict, std::string_view source,
                    const build::BuildFailure* failure = nullptr);

}  // namespace cupel::evolve
