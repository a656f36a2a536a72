// Fake device addresses: an address range in which nothing is ever mapped. Host code that accesses
// "device memory" faults, and the refusal can name the place. Used in the recorder child only.
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
  int argument = -1;         // kArgument
  std::string symbol;        // kSymbol: mangled
  int image = 0;             // kSymbol: the image whose variable it is
  bool constant = false;     // kSymbol: __constant__, which no kernel can write
  std::string value;         // the bytes of elements that host code may read; empty: none
  uint64_t value_at = 0;     // position of the value in the storage
  bool is_integers = false;  // kArgument: of a tensor of integers
  bool live = true;          // false: freed during this call
};

struct Hit {
  const Allocation* allocation = nullptr;
  int64_t offset = 0;  // negative or past the end if the address is just outside the allocation
};

class AddressSpace {
 public:
  /// `seed` (and what earlier calls kept allocated) determines the addresses of this call. Drops
  /// the argument storages and the freed memory of the last call.
  void BeginCall(uint64_t seed);

  /// Aligned to 512 bytes, as PyTorch's allocator and cudaMalloc do it. Null if `bytes` is too
  /// large.
  Allocation* Allocate(uint64_t bytes, Origin origin);
  /// False if no live allocation of `origin` begins at `base`.
  bool Free(uint64_t base, Origin origin);

  bool InRange(uint64_t address) const {
    return address >= kRange && address - kRange < kRangeBytes;
  }
  /// The allocation at `address`. Also finds it for the address one past its end, and for addresses
  /// slightly outside. Also finds memory freed in this call (`live` is false). Safe in a signal
  /// handler.
  std::optional<Hit> Find(uint64_t address) const;
  /// By id, live or freed in this call; null otherwise.
  const Allocation* ById(int id) const;
  /// The storage of argument `index` of this call.
  const Allocation* ByArgument(int index) const {
    return ById(arguments_.at(static_cast<size_t>(index)));
  }
  uint64_t live_bytes() const { return live_bytes_; }

 private:
  /// In the operating system's half of the address space. Eight bytes of a parameter can be an
  /// address or two integers. Two small integers would often look like an address of user space.
  static constexpr uint64_t kRange = 0xffff'9000'0000'0000u;
  static constexpr uint64_t kRangeBytes = uint64_t{1} << 43;
  static constexpr uint64_t kAlignment = 512;
  /// Minimum distance between allocations, so that pointers slightly outside are attributed to the
  /// right allocation.
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
