// at::parallel_for: serial, since a recorded candidate has one thread.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "c10/util/Exception.h"

namespace at {
inline int get_num_threads() { return 1; }
inline int get_thread_num() { return 0; }
inline bool in_parallel_region() { return false; }
template <class F>
void parallel_for(int64_t begin, int64_t end, int64_t, const F& f) {
  if (begin < end) f(begin, end);
}
}  // namespace at
