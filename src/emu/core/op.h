// The interpreter's micro-ops, with pre-resolved frame offsets. A frame
// contains the registers of one warp as a structure of arrays: 32 lanes of 4 bytes (types up to 32
// bits), 32 lanes of 8 bytes, or a 32-bit mask (predicates). Immediates, parameters and special
// registers also have slots in the frame, so handlers need not distinguish kinds of operands. Each
// micro-op has two handlers: `full` runs while all 32 lanes are active, `masked` otherwise.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

namespace cupel::emu {

inline constexpr int kLanes = 32;
inline constexpr uint32_t kFullMask = 0xffffffffu;
/// The first 256 bytes of a frame belong to no register. Masked handlers use them as scratch space.
inline constexpr int32_t kScratchOffset = 0;
inline constexpr int32_t kScratchBytes = 256;

struct Op;
struct Warp;

/// Executes one micro-op and returns the next. Returns null to stop, with Warp::stop and Warp::pc
/// set.
using Handler = const Op* (*)(Warp&, const Op*);

struct alignas(64) Op {
  Handler full = nullptr;
  Handler masked = nullptr;
  int32_t dst = 0;      // byte offsets in the frame
  int32_t src[4] = {};  // memory: [0] address, [1..3] further elements of a vector
  uint32_t source = 0;  // index into Code::sources, for findings
  int64_t imm = 0;      // memory: displacement; other ops: any use
  int32_t target = 0;   // control: index of the merge op to go to
  uint32_t count = 0;   // terminators: instructions of the basic block; memory: index of its hint
  uint32_t flops = 0;   // terminators: floating-point operations of the block, per lane
  uint32_t aux = 0;
};
static_assert(sizeof(Op) == 64);

/// The memory space of an address operand.
enum class MemorySpace : uint8_t { kGlobal, kShared, kLocal, kParam, kGeneric, kSharedCluster };

/// What a load or store accesses, packed into Op::aux.
struct AccessShape {
  uint32_t element_bytes = 4;
  uint32_t elements = 1;  // 0: a later part of an atomic operation on a vector
  bool is_signed = false;
  bool store = false;
  bool is_constant = false;  // .const: global memory that is not counted as global
  MemorySpace space = MemorySpace::kGlobal;
  // How it takes part in synchronisation; atomic operations always do.
  bool is_volatile = false;
  bool is_atomic = false;     // .relaxed, .acquire, .release, or an atomic operation
  bool releases = false;      // .release, .acq_rel
  bool acquires = false;      // .acquire, .acq_rel
  bool non_coherent = false;  // .nc
  bool is_of_block = false;   // .cta: synchronises with no other block

  uint32_t bytes() const { return element_bytes * elements; }
  uint32_t Pack() const {
    return element_bytes | elements << 4 | uint32_t{is_signed} << 8 | uint32_t{store} << 9 |
           uint32_t{is_constant} << 10 | static_cast<uint32_t>(space) << 12 |
           uint32_t{is_volatile} << 16 | uint32_t{is_atomic} << 17 | uint32_t{releases} << 18 |
           uint32_t{non_coherent} << 19 | uint32_t{is_of_block} << 20 | uint32_t{acquires} << 21;
  }
  static AccessShape Unpack(uint32_t aux) {
    AccessShape shape;
    shape.element_bytes = aux & 15u;
    shape.elements = (aux >> 4) & 15u;
    shape.is_signed = ((aux >> 8) & 1u) != 0;
    shape.store = ((aux >> 9) & 1u) != 0;
    shape.is_constant = ((aux >> 10) & 1u) != 0;
    shape.space = static_cast<MemorySpace>((aux >> 12) & 7u);
    shape.is_volatile = ((aux >> 16) & 1u) != 0;
    shape.is_atomic = ((aux >> 17) & 1u) != 0;
    shape.releases = ((aux >> 18) & 1u) != 0;
    shape.non_coherent = ((aux >> 19) & 1u) != 0;
    shape.is_of_block = ((aux >> 20) & 1u) != 0;
    shape.acquires = ((aux >> 21) & 1u) != 0;
    return shape;
  }
};
/// Bits of a packed AccessShape that the fast path of the race checks does not handle.
inline constexpr uint32_t kUnusualAccess = 15u << 16;

/// An access as the race checks see it.
struct AccessKind {
  bool store = false;
  bool atomic = false;  // strong; a store that is not plain also reads the old value
  bool is_volatile = false;
  bool releases = false;
  bool acquires = false;
  bool is_of_block = false;
  bool non_coherent = false;
  bool plain = false;    // Op::aux is an AccessShape, and the operation a load or store
  bool proxied = false;  // a read by the asynchronous proxy
  bool copied = false;   // a store by cp.async
  /// What lanes store together: the bytes of lane 0, of lane 1, …. Null if `plain` says it, or if
  /// it is not known. Valid during the check.
  const std::byte* stored = nullptr;

  bool reads() const { return !store || (atomic && !plain); }
  bool strong() const { return atomic || is_volatile; }
};
inline AccessKind KindOf(const AccessShape& shape) {
  AccessKind kind;
  kind.store = shape.store;
  kind.atomic = shape.is_atomic;
  kind.is_volatile = shape.is_volatile;
  kind.releases = shape.releases;
  kind.acquires = shape.acquires;
  kind.is_of_block = shape.is_of_block;
  kind.non_coherent = shape.non_coherent;
  kind.plain = true;
  return kind;
}

}  // namespace cupel::emu
