// A variant of a kernel's code that carries the exact value of integer arithmetic beside 32-bit
// registers, lane by lane: an index that has wrapped may still be inside its buffer. If such a
// value becomes an address, the access is reported. Values that other instructions make (bits,
// minima, quotients, loads) count as meant, so hashes and generators of random numbers are not
// reported.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "emu/core/code.h"
#include "emu/core/op.h"
#include "emu/core/warp.h"

namespace cupel::emu {

struct Kernel;

/// What the exact result of an op is.
enum class WrapRule : uint8_t {
  kNone,
  kAdd,
  kSub,
  kMul,
  kMad,     // the product plus the last source
  kShl,     // by the last source
  kMove,    // also conversions to 64 bits
  kAccess,  // of global memory: no result, but an address
};

struct WrapCode {
  struct Side {
    Handler full = nullptr, masked = nullptr;  // of the kernel's own code
    WrapRule rule = WrapRule::kNone;
    bool is_lanewise = false;
    bool is_wide = false;         // the result has 64 bits
    bool is_wide_source = false;  // sources have 64 bits, but for amounts of shifts
    bool is_wide_last = false;    // so has the last source of kMad
    bool is_signed = true;        // of 32-bit sources of a wide result
  };
  std::vector<Side> sides;        // by op
  std::vector<bool> is_constant;  // by register: frame offset / kRegister
  std::unique_ptr<Code> variant;
};

/// Null if the kernel calls functions out of line.
std::unique_ptr<WrapCode> MakeWrapCode(const Kernel& kernel);

/// The exact values of a warp's registers.
struct WarpWraps {
  struct Register {
    uint32_t known = 0;  // lanes whose exact value differs from what the bits say alone
    int64_t exact[kLanes];
    uint64_t bits[kLanes];    // for which the exact value holds
    uint32_t source[kLanes];  // the instruction that exceeded 32 bits
  };
  const WrapCode* code = nullptr;
  std::vector<std::unique_ptr<Register>> registers;  // null until one has exact values

  void Clear();
};

}  // namespace cupel::emu
