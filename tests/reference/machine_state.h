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
  std::map<std::string, uint64_t, std::less<>> variables;  // offsets in the thread's local memory
  bool carry = false;
  const ptx::Instr* call = nullptr;  // the caller's instruction, for returning the results
};

enum class Status { kRunning, kWarp, kBarrier, kDone };

struct Machine::Thread {
  std::array<uint32_t, 3> index{};
  uint32_t number = 0;  // in its block
  std::vector<Frame> frames;
  std::vector<std::byte> local;
  Status status = Status::kRunning;
  uint32_t barrier = 0;
  const ptx::Instr* reduces = nullptr;  // bar.red that waits for its result
  Frame& frame() { return frames.back(); }
  const ptx::Instr& instr() const { return *frames.back().code->steps[frames.back().pc].instr; }
};

struct Machine::Warp {
  std::vector<Thread*> lanes;
};

struct Machine::Block {
  std::array<uint32_t, 3> index{};
  std::vector<std::byte> shared;
  std::vector<Thread> threads;
  std::vector<Warp> warps;
  struct Barrier {
    uint32_t arrived = 0, expected = 0, votes = 0;
  };
  std::array<Barrier, 16> barriers;
};

inline int RegisterBits(const ptx::Function& function, int reg) {
  return BitsOf(function.registers[static_cast<size_t>(reg)].type);
}

}  // namespace cupel::reference
