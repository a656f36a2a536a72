// What lies around a call of host code and is no argument of it: how deep the stack is and where
// the heap has room. Both differ from call to call, so that a plan which follows them shows.
// Addresses of code, threads and static objects are those of the process: Recorder::Recheck() asks
// another one. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "base/random.h"

namespace cupel::record {

class Surroundings {
 public:
  /// Takes blocks of every small size, at most as many as the C library keeps at hand, and a large
  /// one; they are given back with the object, in another order than before.
  explicit Surroundings(Random& random);

  /// `call()` on a stack that is deeper by up to 256 KiB.
  template <typename Call>
  [[gnu::noinline]] auto Run(Call call) const {
    char* deeper = static_cast<char*>(__builtin_alloca(stack_bytes_));
    asm volatile("" : : "r"(deeper) : "memory");  // keeps what nobody uses
    WipeStack();
    return call();
  }

 private:
  /// Padding of a kernel's parameters holds what lay on the stack: from an earlier call at another
  /// depth that could be half of an address.
  static void WipeStack();

  size_t stack_bytes_;
  std::vector<std::unique_ptr<char[]>> blocks_;
};

}  // namespace cupel::record
