// A verdict condensed to what is needed to repair the kernel: each reason with its place in the
// source, the values seen and wanted, what is probably wrong. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "judge/verdict.h"

namespace cupel::evolve {

inline constexpr size_t kMaxLessons = 2048;  // bytes

/// At most kMaxLessons bytes of printable text; empty for an accepted kernel. Names the settings
/// that the task lists by their sizes; held-out and derived ones are "other sizes", so that nobody
/// writes for them. Seeds are left out, and of wrong outputs the verdict's first values stand
/// alone.
std::string Lessons(const judge::Verdict& verdict, std::string_view source);

}  // namespace cupel::evolve
