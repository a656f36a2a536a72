// The surroundings of a call of host code: the depth of the stack and the free space in the heap.
// Both change from call to call, so that a plan which depends on them is detected. Addresses of
// code, threads and static objects are fixed in a process, so Recorder::Recheck() uses another one.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "base/random.h"

namespace cupel::record {

class Surroundings {
 public:
  /// Allocates blocks of every small size, at most as many as the C library caches, and a large
  /// one. The destructor frees them in another order.
  explicit Surroundings(Random& random);

  /// Runs `call()` on a stack that is deeper by up to 256 KiB.
  template <typename Call>
  [[gnu::noinline]] auto Run(Call call) const {
    char* deeper = static_cast<char*>(__builtin_alloca(stack_bytes_));
    asm volatile("" : : "r"(deeper) : "memory");  // keeps the unused memory
    WipeStack();
    return call();
  }

 private:
  /// Clears the stack below. Padding of a kernel's parameters contains old stack content, which
  /// could be half of an address from an earlier call at another depth.
  static void WipeStack();

  size_t stack_bytes_;
  std::vector<std::unique_ptr<char[]>> blocks_;
};

}  // namespace cupel::record
