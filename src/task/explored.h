// Sizes beyond those of a task's settings, to see what a kernel does there: small and awkward ones,
// at which it can be judged, widths of current models, and sizes beyond 2^31 elements.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/random.h"
#include "task/task.h"

namespace cupel::task {

/// A setting in which one size differs from those of a listed setting.
struct ExploredSize {
  Setting setting;        // `derived` says what differs: "num_features=3584 num_tokens=5"
  std::string key;        // the keyword that varies
  int64_t number = 0;     // its value
  bool is_small = false;  // the other sizes are reduced, and few elements remain
};

/// Sizes around a task's settings, one keyword at a time, in the order of keywords and numbers.
/// Those for judging are around `judged`, with other sizes reduced where they are large; widths of
/// models also around `listed`, the task's own settings. Settings that differ in more than sizes (a
/// dtype) are explored each.
std::vector<ExploredSize> ExploredSizes(const std::vector<Setting>& judged,
                                        const std::vector<Setting>& listed);

/// `count` small settings in which all sizes, or several, differ from those of `judged` at once. In
/// few calls, each keyword gets numbers whose remainders of division by 2 to 32 the settings
/// `known` and earlier ones lack. The task's reference may accept few of them, as sizes may have to
/// agree (heads, groups). Without `key` and `number`. Empty if there is only one size.
std::vector<ExploredSize> JointSizes(const std::vector<Setting>& judged,
                                     const std::vector<Setting>& known, size_t count,
                                     Random random);

/// Numbers that are no sizes (OptionsOf), each with one or two values that no setting of `judged`
/// has. Each comes after the same setting with its own value, which has the `number` 0: a function
/// to which PyTorch passes the same arguments in both does not know the option.
std::vector<ExploredSize> OtherOptions(const std::vector<Setting>& judged);

/// For each size of `listed`: the smallest number at which the largest tensor has more than 2^31
/// elements, and 2^32. `elements`: those of the largest tensor at `listed`.
std::vector<ExploredSize> LargeSizes(const Setting& listed, int64_t elements);

/// `size` with another number of its keyword.
ExploredSize AtNumber(const ExploredSize& size, int64_t number);

}  // namespace cupel::task
