// Decodes a ptx::Function into Code. One Decoder decodes one kernel, in steps: it inlines calls
// (inline_calls.cc), assigns slots to registers (registers.cc), and turns instructions into
// micro-ops (decode_*.cc).
//
// The row of an opcode (instructions.h) names the function that emits its micro-ops. Arithmetic
// instructions need no code here: their mnemonic is the name of a handler, and the handler's entry
// lists its operands. Only instructions that need several ops or have special operands have code.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "emu/core/code.h"
#include "emu/core/handler_table.h"
#include "emu/core/kernel.h"
#include "emu/core/matrix.h"
#include "emu/core/op.h"
#include "emu/core/source_line.h"
#include "emu/decode/calls.h"
#include "emu/decode/copies.h"
#include "emu/decode/wgmma_uses.h"
#include "ptx/ir.h"

namespace cupel::emu {

/// Floats of at least 16 bits, and pairs of halves.
inline bool IsFloat(ptx::Type type) {
  return type == ptx::Type::kF32 || type == ptx::Type::kF64 || type == ptx::Type::kF16 ||
         type == ptx::Type::kF16x2 || type == ptx::Type::kBF16 || type == ptx::Type::kBF16x2;
}
inline bool IsSigned(ptx::Type type) {
  return type == ptx::Type::kS8 || type == ptx::Type::kS16 || type == ptx::Type::kS32 ||
         type == ptx::Type::kS64;
}

/// A function after its calls were inlined. If that failed, `error` says why.
struct Inlined {
  ptx::Function function;
  std::string error;                      // "call of an extern function 'f'"
  int at = -1;                            // the instruction that caused the error
  std::vector<CalledFunction> functions;  // called out of line; their bodies come first
  std::vector<CallSite> calls;            // calls of those functions
  int entry = 0;                          // first instruction of the kernel's own body
  int entry_register = 0;                 // first register of the kernel's own body
};
/// Replaces calls of functions of the module by their bodies.
Inlined InlineCalls(const ptx::Module& module, const ptx::Function& function);

/// log2 of the bytes of the narrowest access to `space` or through generic addresses; at most 2.
int GranuleShift(const ptx::Function& function, MemorySpace space);

/// True for instructions at which lanes may have to wait. They need the default float mode and must
/// not be guarded by masking.
bool MaySwitch(const ptx::Instr& instr);

/// The form of an instruction's handler. Equivalent spellings have the same form.
Form CanonicalForm(const ptx::Instr& instr);

struct WarpgroupRead;
struct WarpgroupShape;

class Decoder {
 public:
  Decoder(const ptx::Module& module, const HandlerTable& handlers);
  /// Fills in the kernel's properties and code, or its `unsupported`.
  void Decode(const ptx::Function& function, Kernel* kernel);

 private:
  // registers.cc
  void PlaceVariables();
  void AssignSlots();
  void ShareSlots();  // liveness.cc
  void AliasRegisters();
  bool AliasTo(const ptx::Instr& instr, const CopyRules& rules, int* slot);
  bool IsOnStack(const std::string& variable) const;
  void PlaceFrames();
  SlotKind KindOf(int reg) const;
  int NewSlot(SlotKind kind);
  int Temporary(SlotKind kind);
  int SharedConstant(SlotKind kind, uint64_t bits, const std::string& symbol = {});
  int SpecialSlotOf(Special which);
  void LayOutFrame();

  // operands.cc
  int Read(const ptx::Operand& operand, SlotKind kind, ptx::Type type);
  int ReadRegister(int reg, SlotKind kind, ptx::Type type);
  int ReadImmediate(const ptx::Operand& operand, SlotKind kind, ptx::Type type);
  int ReadSymbol(const ptx::Operand& operand, SlotKind kind);
  int ReadSpecial(const std::string& name, SlotKind kind);
  /// The slot that an instruction may write for `operand`. FinishWrite moves the value into the
  /// operand's register if that has another slot.
  int Write(const ptx::Operand& operand, SlotKind kind);
  void FinishWrite(const ptx::Operand& operand, int slot, SlotKind kind, bool is_signed);
  std::optional<uint64_t> SymbolValue(const std::string& name, std::string* global);

  // decoder.cc
  bool CheckBranches();
  void EmitBody();
  void EmitStart();
  void EmitInstr(const ptx::Instr& instr);
  void EmitGuarded(const ptx::Instr& instr);
  void EmitUnguarded(const ptx::Instr& instr);
  Op& Emit(const Form& form);
  Op& Emit(Micro micro) { return Emit(Form(micro, {})); }
  Op& EmitEntry(const Entry& entry);
  void SetMode(FloatMode mode);
  bool Fail(const std::string& what);
  void EmitDefined(const ptx::Instr& instr);
  bool EmitRow(const ptx::Instr& instr);
  void CheckDefined(const ptx::Instr& instr);
  void NoteDefined(const ptx::Instr& instr);
  void FinishBlock(Op& op);
  void NumberLines();
  void NoteInstruction(const ptx::Instr& instr);
  void Resolve();
  void ResolveLists();

  // forms.cc
  bool EmitTable(const ptx::Instr& instr, const Form& form);
  bool EmitMov(const ptx::Instr& instr);
  bool EmitWideMov(const ptx::Instr& instr);
  bool EmitCvta(const ptx::Instr& instr);
  bool EmitSetp(const ptx::Instr& instr);
  bool EmitSet(const ptx::Instr& instr);
  bool EmitCarry(const ptx::Instr& instr);
  bool EmitPacked(const ptx::Operand& dst, const ptx::Operand& src, ptx::Type type);
  int EmitCompare(const ptx::Instr& instr, Micro part, ptx::Type type);
  bool EmitChoose(const ptx::Instr& instr);

  // memory.cc
  bool EmitAccess(const ptx::Instr& instr);
  bool EmitParameterLoad(const ptx::Instr& instr, ptx::Type type);
  /// `elements`: of a vector that the instruction begins; 0: a later part of one.
  bool EmitAtomic(const ptx::Instr& instr, uint32_t elements = 1);
  bool EmitWideAtomic(const ptx::Instr& instr);
  int AddressSlot(const ptx::Operand& operand, MemorySpace space, int64_t* displacement);
  bool SpaceOf(const ptx::Instr& instr, const ptx::Operand& address, MemorySpace* space);

  // flow.cc
  bool EmitBranch(const ptx::Instr& instr);
  bool EmitIndexedBranch(const ptx::Instr& instr);
  bool EmitExit();
  bool EmitBarrier(const ptx::Instr& instr);
  bool EmitBlockBarrier(const ptx::Instr& instr);
  bool EmitFence(const ptx::Instr& instr);
  bool EmitShuffle(const ptx::Instr& instr);
  bool EmitWarpLevel(const ptx::Instr& instr);

  // matrix.cc
  bool BeginMatrix(const ptx::Instr& instr);
  bool EmitMatrixMove(const ptx::Instr& instr);
  bool EmitProduct(const ptx::Instr& instr);
  std::vector<int> ExpandSparse(const ptx::Instr& instr, const ProductShape& product,
                                const std::vector<int>& sparse, const ptx::Operand& metadata,
                                const ptx::Operand& selector);
  bool EmitFragment(const ptx::Instr& instr);
  bool EmitMatrixRows(const ptx::Instr& instr);
  std::vector<int> FragmentSlots(const std::vector<ptx::Operand>& registers,
                                 const std::vector<size_t>& order, SlotKind kind, bool write);
  void SetList(const std::vector<int>& slots);

  // warpgroup.cc
  bool EmitWarpgroup(const ptx::Instr& instr);
  bool EmitWarpgroupProduct(const ptx::Instr& instr);
  void EmitWgmmaUses(size_t instr);
  void EmitIssue(const ptx::Instr& instr, const WarpgroupShape& shape, int a, int b);
  void EmitClear(const ptx::Instr& instr);
  std::vector<int> ReadLeft(const ptx::Instr& instr, int descriptor, bool transposed);
  void EmitRead(int descriptor, const WarpgroupRead& read, const std::vector<int>& slots);
  std::vector<int> Negated(const std::vector<int>& slots, MatrixType type);

  // tensor_memory.cc
  bool EmitTensorMemory(const ptx::Instr& instr);
  bool EmitTensorAllocation(const ptx::Instr& instr);
  bool EmitTensorMove(const ptx::Instr& instr);
  bool EmitTensorCopy(const ptx::Instr& instr);
  bool EmitTensorCommit(const ptx::Instr& instr);
  bool EmitTensorProduct(const ptx::Instr& instr);

  // calls.cc
  int CurrentFrame() const;
  bool EmitArgument(const CallSite::Piece& piece, bool to_callee);
  std::vector<int> SlotsToSave();
  bool EmitCall(const ptx::Instr& instr);
  bool EmitReturn();
  bool EmitReport(const ptx::Instr& instr);

  // rare.cc
  void EmitWithoutHint(const ptx::Instr& instr);
  bool EmitPolicy(const ptx::Instr& instr);
  void EmitAlignmentCheck(const ptx::Operand& address, uint32_t bytes, bool store);
  bool EmitWideAccess(const ptx::Instr& instr);
  bool EmitVectorAtomic(const ptx::Instr& instr);
  bool EmitRegisters(const ptx::Instr& instr);
  bool EmitElect(const ptx::Instr& instr);
  bool EmitCopyTo(const ptx::Operand& to, int from, SlotKind kind);
  bool EmitCluster(const ptx::Instr& instr);
  bool EmitClusterBarrier(const ptx::Instr& instr);

  // async.cc
  bool EmitAsync(const ptx::Instr& instr);
  bool EmitCopyAsync(const ptx::Instr& instr);

  // mbarrier.cc
  bool EmitMemoryBarrier(const ptx::Instr& instr);
  bool EmitMemoryBarrierArrive(const ptx::Instr& instr);
  bool EmitMemoryBarrierWait(const ptx::Instr& instr);
  bool EmitArriveAfterCopies(const ptx::Instr& instr);
  bool BarrierAddress(const ptx::Instr& instr, size_t operand, int* slot, int32_t* displacement,
                      uint32_t* flags);

  // bulk.cc
  bool EmitBulk(const ptx::Instr& instr);
  bool EmitBulkCopy(const ptx::Instr& instr);
  bool EmitStoreAsync(const ptx::Instr& instr);
  int SumSlot(const ptx::Operand& address, MemorySpace space);

  // tensor_map.cc
  bool EmitTensorMap(const ptx::Instr& instr);
  bool EmitMapReplace(const ptx::Instr& instr);
  bool EmitMapFence(const ptx::Instr& instr);

  const ptx::Module& module_;
  const HandlerTable& handlers_;
  Inlined inlined_;
  ptx::Function function_;             // with calls inlined
  std::vector<uint32_t> frame_bytes_;  // of the kernel, then of called functions
  int stack_pointer_ = -1;             // slot, when there are called functions
  Kernel* kernel_ = nullptr;
  std::unique_ptr<Code> code_;

  // Slots are numbers until all are known. LayOutFrame then assigns offsets.
  struct Slot {
    SlotKind kind = SlotKind::kWord;
    int32_t offset = 0;
  };
  std::vector<Slot> slots_;
  std::vector<int> register_slot_;  // by register; -1: not used
  std::vector<int> origin_;         // by register: the instruction that writes it; -1: none
  std::vector<bool> aliased_;       // by instruction: it only creates an alias
  std::vector<int> values_;         // register_slot_ before slots are shared
  std::map<std::pair<std::string, std::pair<uint64_t, int>>, int> constants_;
  std::map<Special, int> specials_;
  std::map<std::pair<uint32_t, std::pair<uint32_t, bool>>, int> parameters_;  // offset, bytes, sign
  std::map<SlotKind, std::vector<int>> temporaries_;
  std::map<SlotKind, size_t> temporaries_used_;
  std::vector<int> undefined_;  // slots that are live at the start
  // By register: if it may be read before it is written, the slot of a mask of the lanes that have
  // written it.
  static constexpr int kNeeded = -2;
  std::vector<int> defined_slot_;
  int carry_ = -1;  // slot of the condition code register, if used

  struct Place {
    ptx::Space space = ptx::Space::kNone;
    uint64_t offset = 0;
    bool on_stack = false;  // the offset is relative to the stack pointer
  };
  std::map<std::string, Place, std::less<>> places_;  // of shared, local and parameter variables

  std::vector<int> label_at_;          // by instruction index: 1 when it is a jump target
  std::vector<int> op_at_;             // by instruction index: index of its merge op
  std::vector<SharedFusion> fusions_;  // by instruction
  std::map<size_t, std::vector<WgmmaUse>> wgmma_uses_;  // by instruction
  std::vector<int> jumps_;                              // ops whose target is an instruction index
  FloatMode default_mode_ = FloatMode::kIeee;
  FloatMode mode_ = FloatMode::kIeee;
  uint32_t block_count_ = 0, block_flops_ = 0;  // of the basic block so far
  int current_ = -1;                            // instruction index
  bool failed_ = false;
};

}  // namespace cupel::emu
