// The emulator's columns of the instruction table (ptx/opcodes.def, emu/isa/micros.def): what the
// estimates, the decoder, the checks and the shadows need to know about an instruction or a
// micro-op. The handlers themselves are in emu/ops/handlers.h.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>

#include "ptx/opcode.h"

namespace cupel::emu {

/// The part of an SM that an instruction uses, or how its modifiers determine that.
enum class Unit : uint8_t {
  kType,      // by its types
  kMove,      // moves or combines bits: integer, unless the type is f64
  kDivision,  // f32: special functions; other types: as kType
  kSpecial,   // special functions, unless the type is f64
  kConversion,
  kSpace,  // by the memory space
  kGlobal,
  kShared,
  kAtomic,
  kTensor,
  kFragment,  // wmma: kSpace for loads and stores, else kTensor
  kControl,
  kBarrier,
  kWarp,
};

/// The clocks until a result is available.
enum class Latency : uint8_t {
  kClass,     // that of the instruction's class
  kDivision,  // a sequence of instructions
  kRoot,      // a sequence of instructions for f64
  kMatch,
};

/// What an instruction does to memory.
enum class MemoryUse : uint8_t {
  kNone,
  kLoad,
  kStore,
  kAtomic,
  kFragment,   // wmma: loads or stores, by its modifiers
  kLoadRows,   // ldmatrix
  kStoreRows,  // stmatrix
  kCopy,       // asynchronous
  kPrefetch,
};

/// Whether lanes of a warp may have to wait for each other at the instruction. It then needs the
/// kernel's default float mode and cannot be guarded by masking.
enum class Lanes : uint8_t { kAlone, kTogether };

/// The function of the decoder that emits the micro-ops.
enum class Decode : uint8_t {
  kUnsupported,
  kTable,  // one micro-op, whose handler has the instruction's mnemonic
  kAccess,
  kAtomic,
  kMov,
  kCvta,
  kSetp,
  kSet,
  kCarry,
  kChoose,  // min and max, of two or three operands
  kBranch,
  kIndexedBranch,
  kExit,
  kReturn,
  kTrap,
  kBarrier,
  kFence,
  kHint,  // no effect in the emulator
  kGridWait,
  kRegisters,
  kPolicy,
  kElect,
  kCluster,
  kShuffle,
  kWarpLevel,
  kProduct,
  kFragment,
  kMatrixRows,
  kMatrixMove,
  kWarpgroup,
  kTensorMemory,
  kAsync,
  kTensorMap,
  kMemoryBarrier,
  kCallOutOfLine,
  kReport,
};

/// How shadow values follow an instruction or a micro-op (emu/shadow/code.cc).
enum class ShadowRule : uint8_t {
  kNone,    // nothing is known
  kSilent,  // changes no value
  kBits,    // integers: a result has the flags of the operands
  // Arithmetic on floats. Integer forms are as kBits unless the classifier knows better.
  kAdd,
  kSub,
  kMul,
  kFma,
  kDiv,
  kSqrt,
  kRcp,
  kRsqrt,
  kEx2,
  kLg2,
  kSin,
  kCos,
  kTanh,
  kMin,
  kMax,
  kNeg,
  kAbs,
  kCopysign,
  kConvert,
  // Moves of bits.
  kMove,
  kPack,
  kPart,
  kPermute,
  kFunnel,
  kShiftLeft,
  kShiftRight,
  kExtract,
  kInsert,
  kAnd,
  kOr,
  kXor,
  kSelect,
  kShuffle,
  kAcross,  // a result depends on several lanes
  kCompare,
  // Memory.
  kAccess,
  kAtomic,
  kCopy,
  kBulkCopy,
  kStoreAsync,
  kRows,
  kFragment,
  kTranspose,
  kExpand,
  kWarpgroupRead,
  kWarpgroupClear,
  // Products of matrices.
  kProduct,
  kIntegerProduct,
  // Control.
  kDecide,  // a predicate decides where lanes go or whether they take part
  kIndex,   // an integer decides where lanes go
  kElect,
  kWait,
  kCall,
  kReturn,
  kCopyLocal,
};

struct Instruction {
  Unit unit = Unit::kType;
  Latency latency = Latency::kClass;
  MemoryUse memory = MemoryUse::kNone;
  Lanes lanes = Lanes::kAlone;
  Decode decode = Decode::kUnsupported;
  ShadowRule shadow = ShadowRule::kNone;
};
/// The row of an opcode. Opcode::kUnknown has one, too: it is unsupported.
const Instruction& RowOf(ptx::Opcode opcode);

/// What a micro-op does, in the detail needed to decide whether a loop can end (loop_effects.h).
enum class Effect : uint8_t {
  kNothing,  // changes neither registers nor memory
  kCompute,  // computes registers from registers
  kTime,     // reads the clock into a register
  kDecide,   // decides where lanes continue
  kGuard,    // decides whether lanes execute the next ops
  kRead,     // reads memory
  kWrite,    // writes memory
  kUpdate,   // updates memory atomically
  kWait,     // tests whether a phase of an mbarrier is complete
  kBarrier,  // waits at a barrier of the block
  kOther,
};

/// The emulator's own micro-ops, and parts of instructions.
enum class Micro : uint8_t {
  kNone,
#define CUPEL_MICRO(enumerator, text, effect, shadow) enumerator,
#include "emu/isa/micros.def"
};

struct MicroRow {
  std::string_view text;
  Effect effect = Effect::kOther;
  ShadowRule shadow = ShadowRule::kNone;
};
const MicroRow& RowOf(Micro micro);
/// kNone if no row has this text.
Micro MicroNamed(std::string_view text);

}  // namespace cupel::emu
