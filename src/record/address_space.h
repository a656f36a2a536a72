// Fake device addresses: a range that nothing is ever mapped in, so that host code which touches
// "device memory" faults and can be told where. Used in the recorder child only.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/random.h"

namespace cupel::record {

enum class Origin {
  kArgument,  // storage of a tensor argument
  kTensor,    // the framework's caching allocator: torch::empty
  kMalloc,    // cudaMalloc and its variants
  kSymbol,    // a __device__ or __constant__ variable
};

struct Allocation {
  uint64_t base = 0;
  uint64_t bytes = 0;
  int id = 0;  // unique in the process, in order of allocation
  Origin origin = Origin::kMalloc;
  int argument = -1;      // kArgument
  std::string symbol;     // kSymbol: mangled
  bool constant = false;  // kSymbol: __constant__, which no kernel can write
  std::string value;      // the bytes of a one-element argument; empty when the host must not know
  uint64_t value_at = 0;  // where in the storage
  bool live = true;       // false: freed during this call
};

struct Hit {
  const Allocation* allocation = nullptr;
  int64_t offset = 0;  // negative or past the end when the address lies beside the allocation
};

class AddressSpace {
 public:
  /// Addresses of this call follow from `seed` (and from what earlier calls kept). Storages of
  /// arguments and freed memory of the last call are forgotten.
  void BeginCall(uint64_t seed);

  /// 512-byte aligned, as PyTorch's allocator and cudaMalloc do it. Null when `bytes` is out of
  /// reach.
  Allocation* Allocate(uint64_t bytes, Origin origin);
  /// False when no live allocation of `origin` begins at `base`.
  bool Free(uint64_t base, Origin origin);

  bool InRange(uint64_t address) const {
    return address >= kRange && address - kRange < kRangeBytes;
  }
  /// The allocation at `address`: one past the end counts, and so does an address a little outside.
  /// Freed memory of this call is found too (`live` is false). Safe in a signal handler.
  std::optional<Hit> Find(uint64_t address) const;
  /// By id, live or freed in this call; null otherwise.
  const Allocation* ById(int id) const;
  /// The storage of argument `index` of this call.
  const Allocation* ByArgument(int index) const {
    return ById(arguments_.at(static_cast<size_t>(index)));
  }
  uint64_t live_bytes() const { return live_bytes_; }

 private:
  /// In the half of the address space that is the operating system's. What a parameter holds is an
  /// address or two integers; an address of a process's own would often be two small ones.
  static constexpr uint64_t kRange = 0xffff'9000'0000'0000u;
  static constexpr uint64_t kRangeBytes = uint64_t{1} << 43;
  static constexpr uint64_t kAlignment = 512;
  /// No other allocation lies nearer than this, so that pointers a little outside keep their owner.
  static constexpr uint64_t kGuardBytes = 32 << 20;

  bool Vacant(uint64_t base, uint64_t bytes) const;

  std::map<uint64_t, Allocation> by_base_;
  std::map<int, uint64_t> base_of_id_;
  std::vector<int> arguments_;  // ids, in order
  Random random_{0};
  int next_id_ = 0;
  uint64_t live_bytes_ = 0;
};

}  // namespace cupel::record
