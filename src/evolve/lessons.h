// A verdict condensed to what is needed to repair the kernel: each reason with its place in the
// source, the values seen and wanted, what is probably wrong. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "build/image.h"
#include "judge/verdict.h"

namespace cupel::evolve {

inline constexpr size_t kMaxLessons = 2048;  // bytes

/// At most kMaxLessons bytes of printable lines; empty for an accepted kernel. Settings that the
/// task lists are named by their sizes. Held-out and derived ones are "other sizes": neither their
/// sizes nor a number from which these could be told (indices, counts, offsets) is given, so that
/// nobody writes for them. Seeds are left out; of wrong outputs the first values stand for all.
/// `failure`, of a kernel that does not compile, has more errors than its verdict.
std::string Lessons(const judge::Verdict& verdict, std::string_view source,
                    const build::BuildFailure* failure = nullptr);

}  // namespace cupel::evolve
