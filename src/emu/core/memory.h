// The emulated device's global memory: one reserved arena with every buffer of a plan and every
// variable of a module, separated by gaps that belong to no buffer. Adding one number translates a
// device address to a host address, so the interpreter's fast path is a bounds test and an
// addition. Addresses depend on a seed, sizes and order. The start of the arena and the distances
// between allocations differ from run to run, which exposes code that depends on addresses.
//
//   base() …                                                                … base() + reserved
//   bytes | red zone | buffer 0 | red zone | unmapped … | red zone | buffer 1 | red zone | …
//
// Red zones (kRedZone bytes on each side) are mapped, so that a full-width vector load at a
// buffer's edge does not fault. Their bytes are poisoned and never written. The space between red
// zones is not mapped.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/random.h"
#include "base/result.h"

namespace cupel::emu {

/// Follows what is written to watched memory (check/global_race.h).
class WriteWatch {
 public:
  virtual ~WriteWatch() = default;
  /// Watches [begin, end), which nothing has written.
  virtual Status Watch(uint64_t begin, uint64_t end) = 0;
  /// Something other than a kernel wrote [address, address + bytes).
  virtual void MarkWritten(uint64_t address, uint64_t bytes) = 0;
};

/// The arena of global device addresses is between these two. The windows of other spaces in the
/// generic address space must be outside this range.
inline constexpr uint64_t kLowestAddress = 0x0000'0100'0000'0000u;
inline constexpr uint64_t kHighestAddress = 0x0000'7a00'0000'0000u;
inline constexpr uint64_t kReservedBytes = uint64_t{1} << 39;
inline constexpr uint64_t kRedZone = 4096;
inline constexpr uint64_t kBufferAlignment = 512;
/// The size of CUDA's heap, unless the host changes it.
inline constexpr uint64_t kHeapBytes = uint64_t{8} << 20;

/// Whether memory is from the kernels' own heap (malloc in device code).
enum class HeapUse : uint8_t { kNone, kLive, kFreed };

/// A buffer or variable that kernels may touch: device addresses [begin, end).
struct Allocation {
  uint64_t begin = 0, end = 0;
  int buffer = -1;         // index in Plan::buffers; -1: a module variable the plan does not name
  bool read_only = false;  // an input (belongs to the caller), or a constant
  bool reachable = true;   // some launch has a pointer to it
  HeapUse heap = HeapUse::kNone;
  std::string name;  // for messages: "argument 1", "temporary 2", "symbol kTable"
};

/// Allocation is not thread-safe. Any number of threads may read and translate addresses.
class GlobalMemory {
 public:
  /// Reserves address space without committing memory.
  static Result<GlobalMemory> Create();
  GlobalMemory(GlobalMemory&& other) noexcept;
  GlobalMemory& operator=(GlobalMemory&& other) noexcept;
  ~GlobalMemory();

  /// Chooses the start of the arena and the distances between allocations. Call before Allocate.
  void Move(uint64_t seed);

  /// Until Reset, allocations are not poisoned and take memory only where they are used. They read
  /// as zeros. Each is followed by a gap of twice its size, so that an index that has wrapped falls
  /// between allocations. Call before Allocate.
  void OnDemand();
  bool is_on_demand() const { return on_demand_; }

  /// Places `bytes` bytes after the last allocation and poisons them. Fails if the machine does not
  /// have enough memory. Kernels may not write to `read_only` memory.
  Result<uint64_t> Allocate(uint64_t bytes, int buffer, bool read_only, std::string name);
  /// malloc in device code: the address of `bytes` bytes of the heap; 0 if it has too few left, or
  /// if `bytes` is 0. Freed memory is not used again, so that every use of it is found. Fails if
  /// that needs too much memory.
  Result<uint64_t> AllocateOnHeap(uint64_t bytes);
  /// free in device code. Returns false if no live part of the heap begins at `address`.
  bool FreeOnHeap(uint64_t address);
  /// Sets whether kernels may access the allocation that contains `address`.
  void SetReachable(uint64_t address, bool reachable);

  /// Until Reset, `watch` follows the later allocations that kernels may write.
  void Watch(std::unique_ptr<WriteWatch> watch) { watch_ = std::move(watch); }
  /// Null if memory is not watched.
  WriteWatch* watch() const { return watch_.get(); }
  /// Records a write by something other than a kernel.
  void MarkWritten(uint64_t address, uint64_t bytes) const;
  /// Records that variable `name` of an image begins at device address `address`.
  void BindSymbol(std::string name, uint64_t address, int image = 0);
  std::optional<uint64_t> SymbolAddress(std::string_view name, int image = 0) const;

  /// Removes all allocations and symbols. Pages stay mapped for the next plan unless there are
  /// many.
  void Reset();

  /// Sets the poison of later allocations. Poison is a quiet NaN as float16, bfloat16, float32 and
  /// float64, with a payload that depends on the seed. `kind` 1 and 2 select a huge positive or
  /// negative number instead (engine::RunOptions::poison).
  void SetPoison(uint64_t seed, int kind = 0);
  uint32_t poison() const { return poison_; }

  /// Sorted by begin. Allocations never overlap or touch.
  const std::vector<Allocation>& allocations() const { return allocations_; }
  /// The allocation that contains `address`, or null.
  const Allocation* Find(uint64_t address) const;
  /// True if all of [address, address + bytes) is inside one allocation.
  bool Contains(uint64_t address, uint64_t bytes) const;

  /// Host address of a device address. Valid only inside allocations and red zones.
  std::byte* Host(uint64_t device) const { return host_ + (device - base_); }
  /// The number that Host adds: host = device + bias, modulo 2^64.
  uint64_t bias() const { return reinterpret_cast<uint64_t>(host_) - base_; }
  /// The first device address of the arena.
  uint64_t base() const { return base_; }
  bool IsInArena(uint64_t device) const { return device - base_ < kReservedBytes; }

  /// Describes an address relative to the nearest allocation, for example "argument 1 + 5120 bytes,
  /// 4 past its end".
  std::string Describe(uint64_t address) const;

 private:
  GlobalMemory();
  void Release() noexcept;
  void DropPages();
  Status Commit(uint64_t begin, uint64_t end);

  std::byte* host_ = nullptr;  // host address of base_
  uint64_t base_ = kLowestAddress;
  Random gaps_{0};
  uint64_t next_ = 0;       // arena offset at which the next allocation's red zone may begin
  uint64_t committed_ = 0;  // bytes made accessible since the last trim
  uint64_t commits_ = 0;    // how often memory was made accessible since then
  uint32_t poison_ = 0;
  bool on_demand_ = false;
  uint64_t heap_next_ = 0, heap_end_ = 0;  // device addresses of the part that nothing has used
  uint64_t heap_used_ = 0;                 // bytes of live parts
  uint64_t heap_taken_ = 0;                // bytes of all parts, gaps included
  std::vector<Allocation> allocations_;
  std::map<std::pair<int, std::string>, uint64_t> symbols_;  // by image and name
  std::unique_ptr<WriteWatch> watch_;
};

}  // namespace cupel::emu
