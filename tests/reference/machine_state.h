// The state of threads and blocks of machine.h.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "machine.h"

namespace cupel::reference {

// Generic addresses of the other spaces. They do not overlap with buffers.
inline constexpr uint64_t kSharedBase = 0x10'0000'0000'0000u;
inline constexpr uint64_t kLocalBase = 0x20'0000'0000'0000u;
inline constexpr uint64_t kParamBase = 0x30'0000'0000'0000u;
inline constexpr uint64_t kWindow = uint64_t{1} << 32;
// Addresses of shared memory: an offset, and above it 0 for the thread's own block, or 1 and the
// rank of a block of the cluster.
inline constexpr int kRankShift = 24;

/// An instruction, with data that is the same for every execution.
struct Machine::Step {
  const ptx::Instr* instr = nullptr;
  std::optional<Operation> operation;
  ptx::Type type = ptx::Type::kNone;  // of its operands: the last type in the instruction
};

struct Machine::Code {
  const ptx::Function* function = nullptr;
  std::vector<Step> steps;
};

struct Machine::Frame {
  const Code* code = nullptr;
  size_t pc = 0;
  std::vector<uint64_t> registers;
  std::map<int, uint64_t> high;                            // the upper halves of 128-bit registers
  std::map<std::string, uint64_t, std::less<>> variables;  // offsets in the thread's local memory
  bool carry = false;
  const ptx::Instr* call = nullptr;  // the caller's instruction, for returning the results
};

// kYield: the thread found that it must wait, and goes on when the others had a turn.
enum class Status { kRunning, kYield, kWarp, kProduct, kBarrier, kCluster, kDone };

struct Machine::Thread {
  std::array<uint32_t, 3> index{};
  uint32_t number = 0;  // in its block
  std::vector<Frame> frames;
  std::vector<std::byte> local;
  Status status = Status::kRunning;
  uint32_t barrier = 0;
  uint64_t cluster_phase = 0;           // at the arrival at the cluster's barrier
  const ptx::Instr* reduces = nullptr;  // bar.red that waits for its result
  Frame& frame() { return frames.back(); }
  const ptx::Instr& instr() const { return *frames.back().code->steps[frames.back().pc].instr; }
};

struct Machine::Warp {
  std::vector<Thread*> lanes;
};

/// An mbarrier object. Its bytes in shared memory have no meaning.
struct Mbarrier {
  uint32_t expected = 0, pending = 0;  // arrivals
  int64_t bytes = 0;                   // that are expected and did not arrive
  uint64_t phase = 0;
};

struct Machine::Block {
  std::array<uint32_t, 3> index{};
  Cluster* cluster = nullptr;
  uint32_t rank = 0;                       // in the cluster
  std::map<uint64_t, Mbarrier> mbarriers;  // by offset
  std::vector<std::byte> shared;
  std::vector<uint32_t> tensor;                 // tensor memory: [lane][column]
  std::map<uint64_t, uint64_t> tensor_columns;  // allocations: first column and count
  std::vector<Thread> threads;
  std::vector<Warp> warps;
  struct Barrier {
    uint32_t arrived = 0, expected = 0, votes = 0;
  };
  std::array<Barrier, 16> barriers;
};

struct Machine::Cluster {
  std::array<uint32_t, 3> shape{1, 1, 1};  // in blocks
  bool is_explicit = false;
  std::vector<Block> blocks;  // by rank
  uint64_t arrived = 0, phase = 0;
};

/// The new value that an atomic stores for the old one; nothing for unknown atomics. `c` is the
/// third operand of cas.
std::optional<uint64_t> Updated(const ptx::Instr& instr, ptx::Type type, bool on_global,
                                uint64_t old, uint64_t b, uint64_t c);

inline int RegisterBits(const ptx::Function& function, int reg) {
  return BitsOf(function.registers[static_cast<size_t>(reg)].type);
}

}  // namespace cupel::reference
