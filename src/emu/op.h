// The interpreter's micro-ops, with pre-resolved frame offsets, and the state of a warp. A frame
// contains the registers of one warp as a structure of arrays: 32 lanes of 4 bytes (types up to 32
// bits), 32 lanes of 8 bytes, or a 32-bit mask (predicates). Immediates, parameters and special
// registers also have slots in the frame, so handlers need not distinguish kinds of operands. Each
// micro-op has two handlers: `full` runs while all 32 lanes are active, `masked` otherwise.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

#include "emu/memory.h"

namespace cupel::emu {

inline constexpr int kLanes = 32;
inline constexpr uint32_t kFullMask = 0xffffffffu;
/// The first 256 bytes of a frame belong to no register. Masked handlers use them as scratch space.
inline constexpr int32_t kScratchOffset = 0;
inline constexpr int32_t kScratchBytes = 256;

struct Op;
struct Warp;
struct BlockState;
struct QuickRace;
struct Worker;
struct WarpShadow;

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

/// Why a warp stopped running.
enum class Stop : uint8_t {
  kRunning,   // it has not stopped
  kContinue,  // pc or active changed: continue
  kSwitch,    // the current group blocked or ended: another group may run
  kSlice,     // its time slice is over
  kFault,     // an error finding was recorded
};

enum class GroupState : uint8_t { kRunnable, kBarrier, kSync };

/// Lanes of a warp that are at the same program counter.
struct Group {
  const Op* pc = nullptr;
  uint32_t mask = 0;
  GroupState state = GroupState::kRunnable;
  uint8_t barrier = 0;     // kBarrier: which
  bool forced = false;     // kSync: continue without the lanes that did not arrive
  uint32_t sync_mask = 0;  // kSync: lanes named by the instruction
};

/// The memory that an instruction accessed last. The next access is usually to the same memory.
struct Hint {
  uint64_t begin = 1, end = 0;  // device addresses
  uint64_t* stamps = nullptr;   // of writes, from `begin`, if watched (global_race.h)
};

struct Warp {
  std::byte* frame = nullptr;
  uint32_t active = 0;
  Stop stop = Stop::kRunning;
  bool counting = false;  // the memory accesses of this block are counted
  bool checking = false;  // RunOptions::full_checks
  bool watching = false;  // full checks of global memory too
  bool sticky = false;    // runs a group out of turn, so that spin loops progress
  const Op* pc = nullptr;
  const Op* min_other = nullptr;  // lowest pc among runnable others; null when there is none
  int64_t slice = 0;              // instructions left before the next warp's turn
  uint64_t warp_instructions = 0, lane_instructions = 0, flops = 0;
  // Less often used.
  uint32_t live = 0;   // lanes that have not exited
  uint32_t index = 0;  // in its block
  uint32_t spin = 0;   // backward branches taken while other groups waited
  int others = 0;
  bool forced = false;          // the instruction at pc runs without the missing lanes
  std::byte* shared = nullptr;  // of the block; host address
  uint64_t shared_bytes = 0;
  std::byte* local = nullptr;        // of the warp: word w of lane l is at (w * 32 + l) * 4
  uint64_t local_bytes = 0;          // of one lane
  const std::byte* param = nullptr;  // the launch's parameter block
  uint64_t param_bytes = 0;
  uint64_t bias = 0;  // host address = device address + bias
  Hint* hints = nullptr;
  const QuickRace* race = nullptr;  // full checks: data of the fast path (quick_race.h)
  BlockState* block = nullptr;
  Worker* worker = nullptr;
  const Op* code = nullptr;
  WarpShadow* shadow = nullptr;  // shadow runs only
  std::array<Group, kLanes> other;
};

template <class T>
inline T* At(const Warp& warp, int32_t offset) {
  return reinterpret_cast<T*>(warp.frame + offset);
}
inline uint32_t& MaskAt(const Warp& warp, int32_t offset) { return *At<uint32_t>(warp, offset); }

/// Called by a terminator: `lanes` lanes executed its basic block.
inline void AccountBlock(Warp& warp, const Op* op, uint64_t lanes) {
  warp.slice -= op->count;
  warp.warp_instructions += op->count;
  warp.lane_instructions += lanes * op->count;
  warp.flops += lanes * op->flops;
}

/// The memory space of an address operand.
enum class MemorySpace : uint8_t { kGlobal, kShared, kLocal, kParam, kGeneric };

/// What a load or store accesses, packed into Op::aux.
struct AccessShape {
  uint32_t element_bytes = 4;
  uint32_t elements = 1;
  bool is_signed = false;
  bool store = false;
  bool is_constant = false;  // .const: global memory that is not counted as global
  MemorySpace space = MemorySpace::kGlobal;
  // How it takes part in synchronisation; atomic operations always do.
  bool is_volatile = false;
  bool is_atomic = false;     // .relaxed, .acquire, .release, or an atomic operation
  bool releases = false;      // .release, .acq_rel
  bool non_coherent = false;  // .nc

  uint32_t bytes() const { return element_bytes * elements; }
  uint32_t Pack() const {
    return element_bytes | elements << 4 | uint32_t{is_signed} << 8 | uint32_t{store} << 9 |
           uint32_t{is_constant} << 10 | static_cast<uint32_t>(space) << 12 |
           uint32_t{is_volatile} << 16 | uint32_t{is_atomic} << 17 | uint32_t{releases} << 18 |
           uint32_t{non_coherent} << 19;
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
  bool non_coherent = false;
  bool plain = false;  // Op::aux is an AccessShape, and the operation a load or store

  bool reads() const { return !store || (atomic && !plain); }
  bool strong() const { return atomic || is_volatile; }
};
inline AccessKind KindOf(const AccessShape& shape) {
  AccessKind kind;
  kind.store = shape.store;
  kind.atomic = shape.is_atomic;
  kind.is_volatile = shape.is_volatile;
  kind.releases = shape.releases;
  kind.non_coherent = shape.non_coherent;
  kind.plain = true;
  return kind;
}

// Slow paths. Those that return an Op return null with warp.stop set, unless stated otherwise.

// groups.cc
/// Lanes `mask` of the current group go to `target`. The rest falls through to `next`.
const Op* Diverge(Warp& warp, const Op* target, uint32_t mask, const Op* next);
/// Called at merge op `op` while another group can run at or below it. May return op + 1.
const Op* MergeOrSwitch(Warp& warp, const Op* op);
/// Lanes `mask` exit. The others, if any, continue at `next`.
const Op* EndLanes(Warp& warp, uint32_t mask, const Op* next);
/// Called for a backward branch while other groups wait, which get a turn from time to time. May
/// return target.
const Op* SpinRotate(Warp& warp, const Op* target);
/// Ends the slice. The warp continues at `pc` later.
const Op* EndSlice(Warp& warp, const Op* pc);
/// Ends the block's turn if blocks run together; returns false if they do not.
bool YieldTurn(Warp& warp);
/// The current group waits at barrier `id` and then continues at op + 1.
const Op* WaitAtBarrier(Warp& warp, const Op* op, uint32_t id);
/// `lanes` threads arrive at barrier `id`, which is full with `expected` threads (0: the block).
void ArriveAtBarrier(Warp& warp, const Op* op, uint32_t id, uint32_t lanes, uint32_t expected);
/// Instruction `op` names lanes `sync_mask`, some of which are not in the current group. Returns
/// true if it may continue now. Otherwise the group waits (or has grown and runs op again), and the
/// caller returns null.
bool CollectLanes(Warp& warp, const Op* op, uint32_t sync_mask);
/// Reports a shuffle whose mask excludes executing lanes, or whose lanes `wrong` read absent lanes.
void ReportShuffle(Warp& warp, const Op* op, uint32_t named, uint32_t wrong);

// report.cc
enum class FaultKind : uint8_t { kOutOfBounds, kMisaligned, kReadOnly, kForeign };
/// Reports a wrong access of `bytes` bytes at `address` (generic, or in its space) by a lane.
const Op* MemoryFault(Warp& warp, const Op* op, FaultKind kind, MemorySpace space, int lane,
                      uint64_t address, uint32_t bytes, bool store);
/// `lane` is the reported thread (-1: the first active one), `where` is Finding::where.
const Op* Fault(Warp& warp, const Op* op, const char* code, const std::string& message,
                int lane = -1, std::string where = {});
void Warn(Warp& warp, const Op* op, const char* code, const std::string& message, int lane = -1,
          std::string where = {});

// access.cc
/// Sets the hint to the allocation (or 2 GiB of it) that contains `address`. Returns false if there
/// is none, or the kernel may not access it in this way.
bool FindAllocation(const Warp& warp, uint64_t address, bool store, Hint& hint);
/// The addresses of an access that is done lane by lane, with all checks.
struct LaneAddresses {
  std::byte* host[kLanes] = {};  // null: local memory, at `local`
  uint64_t local[kLanes] = {};
  uint32_t shared = 0, global = 0;       // lanes
  uint32_t offsets[kLanes] = {};         // in shared memory
  uint32_t global_offsets[kLanes] = {};  // from global_base, unless far
  uint64_t global_addresses[kLanes] = {};
  uint64_t global_base = 0;
  bool far = false, watched = false;

  /// `address` is generic or in `space`. Returns false after a finding.
  bool Add(Warp& warp, const Op* op, MemorySpace space, int lane, uint64_t address, uint32_t bytes,
           bool store);
  /// Counts and checks the added addresses. Returns false after a finding.
  bool Observe(Warp& warp, const Op* op, AccessKind kind, uint32_t bytes) const;
};
/// Full checks, after a load from local memory: reports values that are still poison.
void CheckLocalLoad(Warp& warp, const Op* op);
/// Executes a load or store lane by lane, with all checks. Returns op + 1 or null.
const Op* AccessSlowly(Warp& warp, const Op* op);
/// The bytes that `lane` stores with `op`, a plain store of AccessShape::bytes() bytes.
void StoredValue(const Warp& warp, const Op* op, int lane, std::byte* bytes);
/// Host address of `bytes` bytes at `address` for one lane, or null after a finding. Not for local
/// memory.
std::byte* ResolveLane(Warp& warp, const Op* op, MemorySpace space, int lane, uint64_t address,
                       uint32_t bytes, bool store);

// counters.cc
/// Offsets are relative to a 32-byte aligned base (global) or to the block's shared memory.
void CountGlobal(Warp& warp, const Op* op, uint32_t active, uint64_t base, const uint32_t* offsets);
/// An atomic operation.
void CountAtomic(Warp& warp, const Op* op, const LaneAddresses& lanes);
void CountShared(Warp& warp, const Op* op, uint32_t active, uint32_t bytes,
                 const uint32_t* offsets);

// shared_race.cc, global_race.cc: full checks of an access before it is done. They return false
// after an error (warp.stop is set).
bool CheckShared(Warp& warp, const Op* op, AccessKind kind, uint32_t active, uint32_t bytes,
                 const uint32_t* offsets);
bool CheckShared(Warp& warp, const Op* op, bool store, bool atomic, uint32_t active, uint32_t bytes,
                 const uint32_t* offsets);
/// Only for watched global memory (Hint::stamps). Offsets count from device address `base`.
bool CheckGlobal(Warp& warp, const Op* op, AccessKind kind, uint32_t active, uint32_t bytes,
                 uint64_t base, const uint32_t* offsets);
/// The same for memory that may not be watched. Takes the lower halves of addresses that the op's
/// hint spans.
bool CheckGlobal(Warp& warp, const Op* op, bool store, uint32_t active, uint32_t bytes,
                 const uint32_t* low_halves);
/// Copies to these places of shared memory have begun. The places have no value until the wait.
void NoteCopyUnderWay(Warp& warp, uint32_t active, uint32_t bytes, const uint32_t* offsets);

// sync_notes.cc: call these only if warp.checking is set.
/// The lanes `mask` of the warp have synchronised with each other.
void NoteWarpSync(Warp& warp, uint32_t mask);
/// Lanes `mask` of the warp have exited.
void NoteExit(Warp& warp, uint32_t mask);
/// A fence. Fences of device or system scope affect other blocks.
void NoteFence(Warp& warp, bool reaches_other_blocks);
/// An atomic or volatile access: publishes fenced writes, acquires published ones.
void NoteStrong(Warp& warp, AccessKind kind, bool is_global);

}  // namespace cupel::emu
