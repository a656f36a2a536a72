// A decoded kernel: its micro-ops, and how to fill a warp's frame before the warp starts.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "emu/core/handler_table.h"
#include "emu/core/op.h"
#include "ptx/ir.h"
#include "records/counters.h"

namespace cupel::emu {

/// A slot that holds the same value in all lanes for a whole launch.
struct ConstantSlot {
  int32_t offset = 0;
  SlotKind kind = SlotKind::kWord;
  uint64_t bits = 0;
  std::string symbol;  // if not empty, the value is its device address + bits
};

enum class Special : uint8_t {
  kTidX,
  kTidY,
  kTidZ,
  kCtaidX,
  kCtaidY,
  kCtaidZ,
  kNtidX,
  kNtidY,
  kNtidZ,
  kNctaidX,
  kNctaidY,
  kNctaidZ,
  kLaneId,
  kWarpId,
  kNwarpId,
  kSmId,
  kNsmId,
  kGridId,
  kLanemaskEq,
  kLanemaskLe,
  kLanemaskLt,
  kLanemaskGe,
  kLanemaskGt,
  kDynamicSharedBytes,
  kTotalSharedBytes,
  kGridWorkspaceHigh,
  kGridWorkspaceLow,     // where cooperative groups keep the grid's barrier
  kReservedSharedBegin,  // shared memory that CUDA reserves, partly for cooperative groups
  kReservedSharedEnd,
  kClusterCtaidX,
  kClusterCtaidY,
  kClusterCtaidZ,
  kClusterNctaidX,
  kClusterNctaidY,
  kClusterNctaidZ,
  kClusterCtarank,
  kClusterNctarank,
  kClusteridX,
  kClusteridY,
  kClusteridZ,
  kNclusteridX,
  kNclusteridY,
  kNclusteridZ,
  kIsExplicitCluster,
};
struct SpecialSlot {
  Special which = Special::kTidX;
  int32_t offset = 0;
};

/// A kernel parameter as a slot: `bytes` at `from` of the parameter block.
struct ParameterSlot {
  int32_t offset = 0;
  uint32_t from = 0;
  uint32_t bytes = 0;
  bool is_signed = false;
};

/// The instruction that a micro-op comes from.
struct Source {
  ptx::Location location;
  uint32_t statement = 0;  // index into Code::statements
};

/// What reports and checks need of an instruction of the PTX text.
struct Statement {
  std::string mnemonic;
  ptx::Opcode op = ptx::Opcode::kUnknown;
  ptx::Type type = ptx::Type::kNone;  // if the mnemonic ends with one
  bool cancels = false;               // decode/cancelled_rounding.h
};

/// How long one warp takes for a basic block: the chain of dependent instructions that takes
/// longest if loads take their usual time (decode/chains.h).
struct Chain {
  uint32_t begin = 0, end = 0;  // the block: indices of instructions
  uint32_t clocks = 0;          // without loads; at least one for each instruction of the block
  uint32_t loads = 0;           // dependent loads of global memory, and atomics with a result
  uint32_t shared_loads = 0;
};

/// The access to shared memory that is counted instead of the one in PTX (decode/shared_fusion.h).
struct SharedFusion {
  int32_t shift = 0;       // from its own address to that of the fused access
  uint32_t bytes = 0;      // of the fused access; 0: not fused
  bool is_member = false;  // counted with an earlier one
};

struct Code {
  std::vector<Op> ops;
  std::vector<const Entry*> entries;  // by op: the row of the handler table that it was made from
  std::vector<Source> sources;        // by Op::source
  std::vector<Statement> statements;
  std::vector<int32_t> branch_targets;  // of brx.idx
  /// Operands (offsets) of ops that have more operands than fit into an Op. Op::imm is the index of
  /// an op's first one.
  std::vector<int32_t> lists;
  std::map<uint64_t, int32_t> functions;  // first op of each callable function, by its address
  int32_t frame_bytes = 0;
  bool is_of_triton = false;  // Triton's compiler made the PTX
  std::vector<ConstantSlot> constants;
  std::vector<SpecialSlot> specials;
  std::vector<ParameterSlot> parameters;
  /// Slots that may be read before they are written: poisoned when a warp starts.
  struct Range {
    int32_t begin, end;
  };
  std::vector<Range> undefined;
  std::vector<int32_t> cleared;  // predicate slots that are zero when a warp starts
  uint32_t hints = 0;            // memory instructions
  /// Line ids for stamps (race_stamp.h), by Op::source, and the lines by id.
  std::vector<uint8_t> line_ids;
  std::vector<int> line_of_id;
  int shared_granule_shift = 2;  // log2 bytes of the narrowest access to shared memory, at most 2
  /// By instruction, for counters. An instruction without ops executes as often as the next op.
  struct Instruction {
    uint32_t first_op = 0, end_op = 0;
    records::InstructionClass kind = records::InstructionClass::kInteger;
    bool is_branch = false;  // conditional
    bool is_free = false;    // machine code does not need it
    /// An atomic on shared memory that is retried until it succeeds.
    bool is_retried = false;
    uint32_t tensor_operations = 0;
  };
  std::vector<Instruction> instructions;
  std::vector<Chain> chains;          // of basic blocks, for estimates
  std::vector<bool> stores;           // by op: it may store to global memory
  std::vector<SharedFusion> fusions;  // by Op::count of loads and stores; may be shorter
  bool flush = false;                 // start with an MXCSR that flushes subnormals
  const HandlerTable* handlers = nullptr;
  const ptx::Module* module = nullptr;  // for files and inlined sites
  Handler guard = nullptr;              // of guards, in variants that replace it
};

inline constexpr unsigned kIeeeMode = 0x1f80;               // MXCSR: exceptions masked, nearest
inline constexpr unsigned kFlushMode = kIeeeMode | 0x8040;  // flush results, zero operands

}  // namespace cupel::emu
