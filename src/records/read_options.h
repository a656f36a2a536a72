// How a record from outside is read.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <limits>

#include "base/json_fwd.h"

namespace cupel::records {

struct ReadOptions {
  /// Members that are missing or malformed keep their defaults. For reports, which show what there
  /// is. Otherwise reading fails.
  bool tolerant = false;
  size_t longest_text = std::numeric_limits<size_t>::max();  // bytes; longer texts are cut
  /// Longer lists are cut if `tolerant`, and are errors otherwise.
  size_t longest_list = size_t{1} << 20;
  /// Memory of all list items together, because a short text may describe many large items. More
  /// is an error, also if `tolerant`: then the rest is left out.
  size_t most_bytes = size_t{256} << 20;
};

/// For reports on untrusted records.
inline constexpr ReadOptions kTolerant{true, 4096, 10'000, size_t{64} << 20};

}  // namespace cupel::records
