// Shadow values: each float has a double with the result of exact arithmetic (docs/judging.md). A
// shadow is tied to a bit pattern. It is valid only while the register or memory has the bits for
// which it was made; otherwise the value itself is used. Writes that do not update shadows
// therefore cannot make them wrong.
//
// Registers and memory are divided into granules of 16 bits. A float's shadow is at its first
// granule: a word has one float32 or two halves, a doubleword one float64, two float32 or four
// halves. Shadows of integers carry only flags.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "emu/core/code.h"
#include "emu/core/handler_table.h"
#include "emu/core/instrument.h"
#include "emu/core/op.h"
#include "emu/core/warp.h"
#include "emu/shadow/memory.h"
#include "engine/run.h"

namespace cupel::emu {

struct BlockState;
struct Kernel;

/// One granule of a register for all lanes. A word's slot has two, a doubleword's four.
struct alignas(64) Plane {
  double exact[kLanes];
  uint32_t bits[kLanes];
  uint32_t state[kLanes];
};

/// The state of a slot of 128 bytes. Planes of lanes that are not live have no meaning.
struct SlotHeader {
  uint32_t live = 0;  // lanes with a shadow
  uint32_t raw = 0;   // lanes with an unchanged loaded float, which is exact
};

/// The result of an op before it is written; CommitShadow ties it to the written bits.
struct ShadowResult {
  double exact[4][kLanes];
  uint32_t state[4][kLanes];
  uint32_t raw = 0;
  int planes = 2;
};

struct CallShadows;
struct WarpShadow;
struct Side;
/// Computes the shadows of an op's result before the op runs.
using ShadowStep = void (*)(WarpShadow&, Warp&, const Op*, const Side&);

enum class Format : uint8_t { kF32, kF64, kF16, kBF16, kInteger };
/// The dtype of a float format. Returns kF32 for integers, which have none.
DType DTypeOf(Format format);
enum class Exact : uint8_t {
  kMove,
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
  kCopysign
};

/// Shadow-related information about an op.
struct Side {
  Handler full = nullptr, masked = nullptr;  // the original handlers
  ShadowStep step = nullptr;
  Exact operation = Exact::kMove;
  Format format = Format::kF32;  // of the result
  Format from = Format::kF32;    // of the sources
  Format last = Format::kF32;    // of the last source: differs only in mixed precision
  uint8_t sources = 0;
  bool packed = false;     // two halves, or two float32
  bool saturates = false;  // to [0, 1]
  bool relu = false;
  bool magic = false;      // adds a constant so large that it rounds to an integer
  bool cancels = false;    // that integer does not change the kernel's results
  bool is_signed = false;  // integer sources
  uint8_t bytes = 0;       // of integer sources
  char detail = 0;         // selects the variant of comparisons and moves
  SlotKind dst = SlotKind::kNone;
  SlotKind src[4] = {SlotKind::kNone, SlotKind::kNone, SlotKind::kNone, SlotKind::kNone};
};

struct ShadowCode;
struct WarpShadow {
  const Side* sides = nullptr;
  const ShadowCode* code = nullptr;
  const Op* op = nullptr;          // the current one
  Plane* planes = nullptr;         // of frame offset o: planes[o / 64]
  SlotHeader* headers = nullptr;   // headers[o / 128]
  uint32_t* taints = nullptr;      // of predicates: lanes whose value exact arithmetic may change
  ShadowResult* result = nullptr;  // scratch
  Cell* shared = nullptr;          // of the block
  BlockState* block = nullptr;
  Cell* local = nullptr;  // as Warp::local; null: too large to follow
  ShadowMemory* memory = nullptr;
  const Field* field = nullptr;        // that of the memory
  std::shared_ptr<CallShadows> calls;  // made by the first call
  uint32_t reset = 0, branch = 0;      // lanes whose further results are all flagged
  uint32_t history = 0;                // sites of reset and branch
};

/// The current op's bit of kSites (shadow_sites.cc).
uint32_t SiteOf(const WarpShadow& ws);
/// Adds the current op's site to flags that have no site yet.
inline uint32_t Stamped(const WarpShadow& ws, uint32_t state) {
  const bool unnamed = (state & kCauses) != 0 && (state & kSites) == 0;
  return unnamed ? state | SiteOf(ws) : state;
}
/// The flags that a lane's earlier decisions add to its results.
inline uint32_t HistoryFlags(const WarpShadow& ws, int lane) {
  const uint32_t flags = (((ws.reset >> lane) & 1u) != 0 ? kReset : 0) |
                         (((ws.branch >> lane) & 1u) != 0 ? kDecision : 0);
  return flags == 0 ? 0 : flags | ws.history;
}
/// Everything that these lanes compute later is reset.
inline void ResetLanes(WarpShadow& ws, uint32_t lanes) {
  if ((lanes & ~ws.reset) == 0) return;
  ws.reset |= lanes;
  ws.history |= SiteOf(ws);
}
inline void DoubtLanes(WarpShadow& ws, uint32_t lanes) {
  if ((lanes & ~ws.branch) == 0) return;
  ws.branch |= lanes;
  ws.history |= SiteOf(ws);
}

/// The variant of one kernel for shadow runs.
struct ShadowCode {
  std::unique_ptr<Code> variant;
  std::vector<Side> sides;
  std::vector<std::string> unknown;  // mnemonics that are not followed and reset shadows
  std::string kernel;                // for sites
  /// The kernel loads 32-bit integers from this memory, which may be floats.
  bool shared_integers = false, local_integers = false;
  bool global_integers = false;         // this or another kernel of the module
  mutable std::vector<uint32_t> sites;  // bits of ops that have set a flag; read and set atomically
  /// What comparisons of ops found (decisions.h); in a field only. Read and set atomically.
  mutable std::vector<uint8_t> decisions;
};
std::unique_ptr<ShadowCode> MakeShadowCode(const Code& code);

/// State that the launches of one run share.
class ShadowRun {
 public:
  /// `base` is the device address at which the memory's arena begins. `field`: what shadows are
  /// elements of; nothing for real numbers.
  static Result<std::unique_ptr<ShadowRun>> Create(
      uint64_t base, const std::optional<engine::FieldOptions>& field = {});
  ~ShadowRun();
  ShadowMemory& memory() { return *memory_; }
  /// The shadow variant of a kernel, created on first use.
  const ShadowCode& CodeOf(const Kernel& kernel);
  /// In a field: what comparisons found.
  std::vector<engine::Decision> decisions() const;
  /// Mnemonics encountered that shadows do not follow.
  std::vector<std::string> unknown() const;

 private:
  std::optional<Field> field_;
  std::unique_ptr<ShadowMemory> memory_;
  std::vector<std::pair<const Kernel*, std::unique_ptr<ShadowCode>>> codes_;
};

/// The shadows of a resident block's registers, shared and local memory.
class BlockShadow {
 public:
  BlockShadow(const ShadowCode& code, ShadowMemory& memory, uint32_t warps, uint32_t shared_bytes,
              uint32_t local_bytes);
  ~BlockShadow();
  BlockShadow(const BlockShadow&) = delete;
  BlockShadow& operator=(const BlockShadow&) = delete;
  WarpShadow& warp(uint32_t index) { return warps_[index]; }
  void Start();
  size_t bytes() const { return bytes_; }

 private:
  std::vector<WarpShadow> warps_;
  std::vector<SlotHeader> headers_;
  std::vector<uint32_t> taints_;
  ShadowResult result_;
  std::byte* pages_ = nullptr;
  size_t bytes_ = 0;
};

// shadow_registers.cc

/// The bits of a lane of a slot with 4 or 8 bytes per lane.
inline uint64_t SlotBits(const Warp& warp, int32_t offset, bool wide, int lane) {
  return wide ? At<const uint64_t>(warp, offset)[lane] : At<const uint32_t>(warp, offset)[lane];
}
/// The valid cells of the up to four granules of a lane of a slot.
void ReadCells(const WarpShadow& ws, const Warp& warp, int32_t offset, bool wide, int lane,
               Cell (&cells)[4]);
/// Reads shadows of all lanes as `format` at granule `at`. Flags are or-ed into `flags`. `value`
/// may be null.
void Gather(const WarpShadow& ws, const Warp& warp, int32_t offset, bool wide, Format format,
            int at, double* exact, double* value, uint32_t* flags);
/// Flags of all lanes of a slot as an integer: floats that are used as integers are reset. Returns
/// the lanes that have flags.
uint32_t GatherFlags(const WarpShadow& ws, const Warp& warp, int32_t offset, SlotKind kind,
                     uint32_t* flags);
/// Ties ws.result to the bits that the op has written to the slot, for the active lanes.
void CommitShadow(WarpShadow& ws, const Warp& warp, int32_t offset, bool wide);
/// Removes the shadows of what the active lanes wrote.
void ClearShadow(WarpShadow& ws, const Warp& warp, int32_t offset, bool wide);

inline bool IsLive(const WarpShadow& ws, int32_t offset) {
  return ws.headers[offset / 128].live != 0;
}
inline bool IsRaw(const WarpShadow& ws, int32_t offset) {
  return ws.headers[offset / 128].raw != 0;
}

// shadow_float.cc
void FloatStep(WarpShadow& ws, Warp& warp, const Op* op, const Side& side);
// shadow_move.cc
void MoveStep(WarpShadow& ws, Warp& warp, const Op* op, const Side& side);
void SelectStep(WarpShadow& ws, Warp& warp, const Op* op, const Side& side);
void GranuleStep(WarpShadow& ws, Warp& warp, const Op* op, const Side& side);
void ShuffleStep(WarpShadow& ws, Warp& warp, const Op* op, const Side& side);
void IntegerStep(WarpShadow& ws, Warp& warp, const Op* op, const Side& side);
/// The source of a granule of a lane's result: granule g comes from `map[g]`.
struct From {
  int source = -1;  // -1: none
  int granule = 0;
  bool operator==(const From&) const = default;
};
void MoveCells(const Cell (&cells)[4][4], const From (&map)[4], int granules, int lane,
               ShadowResult& result);
// shadow_small.cc: to and from 8-bit floats
void SmallFloatStep(WarpShadow& ws, Warp& warp, const Op* op, const Side& side);
// shadow_logic.cc: and, or, xor
void LogicStep(WarpShadow& ws, Warp& warp, const Op* op, const Side& side);
// shadow_choice.cc: integer instructions whose result is one of their operands
void ChoiceStep(WarpShadow& ws, Warp& warp, const Op* op, const Side& side);
// shadow_control.cc
void CompareStep(WarpShadow& ws, Warp& warp, const Op* op, const Side& side);
void PredicateStep(WarpShadow& ws, Warp& warp, const Op* op, const Side& side);
void AcrossStep(WarpShadow& ws, Warp& warp, const Op* op, const Side& side);
void BranchStep(WarpShadow& ws, Warp& warp, const Op* op, const Side& side);
void WaitStep(WarpShadow& ws, Warp& warp, const Op* op, const Side& side);
void UnknownStep(WarpShadow& ws, Warp& warp, const Op* op, const Side& side);
// shadow_product.cc: for "@mma.float" and "@mma.double"
Thunks ProductThunks();
// shadow_matrix.cc: for "@matrixrows", "@fragment", "@mma.expand" and movmatrix
Thunks RowsThunks();
Thunks FragmentThunks();
Thunks ExpandThunks();
Thunks WarpgroupReadThunks();
Thunks WarpgroupClearThunks();
Thunks TransposeThunks();
// shadow_integer_product.cc: for "@mma.integer" and "@mma.bits"
Thunks IntegerProductThunks();
// shadow_copy.cc: for "@cp.async" and "@bulk"
Thunks CopyThunks();
Thunks BulkCopyThunks();
Thunks StoreAsyncThunks();
// shadow_call.cc: for "@call", "@return" and "@copylocal"
Thunks CallThunks();
Thunks ReturnThunks();
Thunks CopyLocalThunks();
// shadow_load.cc, shadow_store.cc, shadow_atomic.cc
Thunks LoadThunks();
Thunks StoreThunks();
Thunks AtomicThunks();

}  // namespace cupel::emu
