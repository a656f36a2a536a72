// The emulated device's global memory: one reserved arena in which every buffer of a plan and every
// variable of a module has a place, with gaps between them that belong to nobody. Device addresses
// translate to host addresses by adding one number, so that the interpreter's fast path is a bounds
// test and an addition. They follow from a seed, sizes and order: where the arena begins, and how
// far allocations lie apart, differ from run to run, so that code which looks at addresses is seen.
//
//   base() …                                                                … base() + reserved
//   bytes | red zone | buffer 0 | red zone | unmapped … | red zone | buffer 1 | red zone | …
//
// Red zones (kRedZone bytes each side) are mapped, so that a full-width vector load at a buffer's
// edge does not fault; their bytes are poisoned and never written. What lies between red zones is
// not mapped. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/random.h"
#include "base/result.h"

namespace cupel::emu {

class GlobalChecker;

/// Global device addresses lie in an arena between these two. Windows of other spaces in the
/// generic address space must lie elsewhere.
inline constexpr uint64_t kLowestAddress = 0x0000'0100'0000'0000u;
inline constexpr uint64_t kHighestAddress = 0x0000'7a00'0000'0000u;
inline constexpr uint64_t kReservedBytes = uint64_t{1} << 39;
inline constexpr uint64_t kRedZone = 4096;
inline constexpr uint64_t kBufferAlignment = 512;

/// A buffer or variable that kernels may touch: device addresses [begin, end).
struct Allocation {
  uint64_t begin = 0, end = 0;
  int buffer = -1;         // index in Plan::buffers; -1: a module variable the plan does not name
  bool read_only = false;  // an input, which belongs to the caller; a constant
  bool reachable = true;   // some launch was given a pointer to it
  std::string name;        // for people: "argument 1", "temporary 2", "symbol kTable"
};

/// Not thread-safe while allocating; reading and translating are, from any number of threads.
class GlobalMemory {
 public:
  /// Reserves address space; commits nothing.
  static Result<GlobalMemory> Create();
  GlobalMemory(GlobalMemory&& other) noexcept;
  GlobalMemory& operator=(GlobalMemory&& other) noexcept;
  ~GlobalMemory();

  /// Draws where the arena begins and how far allocations lie apart; there are none yet.
  void Move(uint64_t seed);

  /// Places `bytes` bytes after the last allocation; its contents are poisoned. The error says that
  /// the machine's memory does not suffice.
  /// Kernels may not write what is `read_only`.
  Result<uint64_t> Allocate(uint64_t bytes, int buffer, bool read_only, std::string name);
  /// Says whether kernels may touch the allocation that holds `address`.
  void SetReachable(uint64_t address, bool reachable);

  /// From now on until Reset, allocations that kernels may write are watched for races and for
  /// reads of what nothing has written. Granules of 2^granule_shift bytes.
  void Watch(int granule_shift);
  /// Null when nothing is watched.
  GlobalChecker* checker() const { return checker_.get(); }
  /// Something other than a kernel wrote there.
  void MarkWritten(uint64_t address, uint64_t bytes) const;
  /// Remembers that module variable `name` begins at device address `address`.
  void BindSymbol(std::string name, uint64_t address);
  std::optional<uint64_t> SymbolAddress(std::string_view name) const;

  /// Forgets all allocations and symbols. Pages stay mapped for the next plan unless they are many.
  void Reset();

  /// Seeds the poison of allocations made from now on. Poison is a signalling-free NaN when read as
  /// float16, bfloat16, float32 or float64, with a payload that depends on the seed.
  /// `kind` 1 and 2 give a huge positive or negative number instead (engine::RunOptions::poison).
  void SetPoison(uint64_t seed, int kind = 0);
  uint32_t poison() const { return poison_; }

  /// Sorted by begin; allocations never overlap nor touch.
  const std::vector<Allocation>& allocations() const { return allocations_; }
  /// The allocation that holds `address`, or null.
  const Allocation* Find(uint64_t address) const;
  /// True when all of [address, address + bytes) lies inside one allocation.
  bool Contains(uint64_t address, uint64_t bytes) const;

  /// Host address of a device address; meaningful only inside allocations and red zones.
  std::byte* Host(uint64_t device) const { return host_ + (device - base_); }
  /// What Host adds: host = device + bias, modulo 2^64.
  uint64_t bias() const { return reinterpret_cast<uint64_t>(host_) - base_; }
  /// The first device address of the arena.
  uint64_t base() const { return base_; }
  bool IsInArena(uint64_t device) const { return device - base_ < kReservedBytes; }

  /// "argument 1 + 5120 bytes, 4 past its end": where an address is, relative to the nearest
  /// allocation.
  std::string Describe(uint64_t address) const;

 private:
  struct Symbol {
    std::string name;
    uint64_t address = 0;
  };
  GlobalMemory();
  void Release() noexcept;
  Status Commit(uint64_t begin, uint64_t end);

  std::byte* host_ = nullptr;  // host address of base_
  uint64_t base_ = kLowestAddress;
  Random gaps_{0};
  uint64_t next_ = 0;       // arena offset at which the next allocation's red zone may begin
  uint64_t committed_ = 0;  // bytes made accessible since the last trim
  uint64_t commits_ = 0;    // and how often
  uint32_t poison_ = 0;
  std::vector<Allocation> allocations_;
  std::vector<Symbol> symbols_;  // sorted by name
  std::unique_ptr<GlobalChecker> checker_;
};

}  // namespace cupel::emu
