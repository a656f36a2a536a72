// Drives the decoding of a kernel: basic blocks, guards and float modes.
// SPDX-License-Identifier: Apache-2.0
#include "emu/decode/decoder.h"

#include <fmt/format.h>

#include <algorithm>

#include "emu/core/call_stacks.h"
#include "emu/core/code.h"
#include "emu/core/handler_table.h"
#include "emu/core/kernel.h"
#include "emu/core/kernel_text.h"
#include "emu/core/op.h"
#include "emu/core/race_stamp.h"
#include "emu/core/source_line.h"
#include "emu/decode/cancelled_rounding.h"
#include "emu/decode/chains.h"
#include "emu/decode/matrix_operands.h"
#include "emu/decode/shared_fusion.h"
#include "emu/decode/wide_registers.h"
#include "emu/isa/instruction_class.h"
#include "emu/isa/instructions.h"
#include "emu/isa/register_use.h"
#include "ptx/parser.h"

namespace cupel::emu {

using ptx::Instr;
using ptx::Modifier;
using ptx::Opcode;
using ptx::Operand;
using ptx::OperandKind;
using ptx::Type;

namespace {

/// The float mode that an instruction will need, estimated before it is decoded.
FloatMode ModeHint(const Instr& instr) {
  const Instruction& row = RowOf(instr.op);
  if (row.memory != MemoryUse::kNone || row.unit == Unit::kMove) return FloatMode::kAny;
  if (instr.Has(Modifier::kFtz)) return FloatMode::kFlush;
  const ptx::Types types = instr.Types();
  return std::any_of(types.begin(), types.end(), IsFloat) ? FloatMode::kIeee : FloatMode::kAny;
}

}  // namespace

bool MaySwitch(const Instr& instr) { return RowOf(instr.op).lanes == Lanes::kTogether; }

Decoder::Decoder(const ptx::Module& module, const HandlerTable& handlers)
    : module_(module), handlers_(handlers) {}

bool Decoder::Fail(const std::string& what) {
  if (failed_) return false;
  failed_ = true;
  const bool in_body = current_ >= 0 && static_cast<size_t>(current_) < function_.body.size();
  const SourceLine line =
      in_body ? LineOf(module_, function_.body[static_cast<size_t>(current_)].location)
              : SourceLine{};
  kernel_->unsupported =
      line.line > 0 ? fmt::format("{} at {}:{}", what, line.file, line.line) : what;
  return false;
}

Op& Decoder::EmitEntry(const Entry& entry) {
  if (entry.mode != FloatMode::kAny) SetMode(entry.mode);
  Op& op = code_->ops.emplace_back();
  code_->entries.push_back(&entry);
  op.full = entry.full;
  op.masked = entry.masked;
  op.dst = -1;
  for (int32_t& src : op.src) src = -1;
  op.source = static_cast<uint32_t>(std::max(current_, 0));
  block_flops_ += entry.flops;
  return op;
}

Op& Decoder::Emit(const Form& form) {
  const Entry* entry = handlers_.Find(form);
  if (entry == nullptr) {
    Fail(Name(form));
    static const Entry nothing;
    return EmitEntry(nothing);
  }
  return EmitEntry(*entry);
}

void Decoder::SetMode(FloatMode mode) {
  if (mode == FloatMode::kAny || mode == mode_) return;
  mode_ = mode;
  Emit(Micro::kMode).imm = mode == FloatMode::kFlush ? kFlushMode : kIeeeMode;
}

/// Makes `op` the terminator that accounts for the basic block.
void Decoder::FinishBlock(Op& op) {
  op.count = block_count_;
  op.flops = block_flops_;
  block_count_ = block_flops_ = 0;
}

namespace {

/// The scale-d of a warpgroup's product, which reads its sums only if that is true. Null for other
/// instructions.
const Operand* ScaleOf(const Instr& instr) {
  if (instr.op != Opcode::kWgmma) return nullptr;
  const size_t at = IsSparse(instr) ? 5 : 3;
  return instr.operands.size() > at ? &instr.operands[at] : nullptr;
}

bool IsAmong(const std::vector<Operand>& registers, int reg) {
  return std::ranges::any_of(registers, [&](const Operand& one) { return one.reg == reg; });
}

}  // namespace

/// Emits checks before an instruction that reads registers that may be undefined. Copies are not
/// checked, because compilers also copy values that no later path uses.
void Decoder::CheckDefined(const Instr& instr) {
  if (instr.op == Opcode::kMov || instr.op == Opcode::kSelp) return;
  const Operand* const scale = ScaleOf(instr);
  for (int reg : UseOf(instr).reads) {
    const int slot = defined_slot_[static_cast<size_t>(reg)];
    if (slot < 0 || reg == instr.guard) continue;
    int adds = -1;
    if (scale != nullptr && IsAmong(instr.operands[0].elements, reg)) {
      const bool is_known = scale->kind == OperandKind::kImmediate;
      if (is_known && scale->bits == 0) continue;
      if (!is_known) adds = Read(*scale, SlotKind::kPredicate, Type::kPred);
    }
    Op& op = Emit(Micro::kCheckDefined);
    op.src[0] = slot;
    op.src[1] = adds;
  }
}

void Decoder::NoteDefined(const Instr& instr) {
  for (int reg : UseOf(instr).writes) {
    const int slot = defined_slot_[static_cast<size_t>(reg)];
    if (slot >= 0) Emit(Micro::kDefine).dst = slot;
  }
}

void Decoder::EmitUnguarded(const Instr& instr) {
  CheckDefined(instr);
  EmitDefined(instr);
  if (!failed_) NoteDefined(instr);
}

void Decoder::EmitDefined(const Instr& instr) {
  if (!instr.unknown.empty()) {
    Fail(instr.Mnemonic());
  } else if (instr.Has(Modifier::kL2CacheHint) && instr.op != Opcode::kCp) {
    EmitWithoutHint(instr);
  } else if (instr.Has(Modifier::kCc)) {
    EmitCarry(instr);
  } else {
    EmitRow(instr);
  }
}

/// Calls the function that the instruction's row names.
bool Decoder::EmitRow(const Instr& instr) {
  switch (RowOf(instr.op).decode) {
    case Decode::kUnsupported:
      return Fail(instr.Mnemonic());
    case Decode::kTable:
      return EmitTable(instr, CanonicalForm(instr)) || Fail(instr.Mnemonic());
    case Decode::kAccess:
      return EmitAccess(instr);
    case Decode::kAtomic:
      return EmitAtomic(instr);
    case Decode::kMov:
      return EmitMov(instr);
    case Decode::kCvta:
      return EmitCvta(instr);
    case Decode::kSetp:
      return EmitSetp(instr);
    case Decode::kSet:
      return EmitSet(instr);
    case Decode::kCarry:
      return EmitCarry(instr);
    case Decode::kChoose:
      return EmitChoose(instr);
    case Decode::kBranch:
      return EmitBranch(instr);
    case Decode::kIndexedBranch:
      return EmitIndexedBranch(instr);
    case Decode::kExit:
      return EmitExit();
    case Decode::kReturn:
      return EmitReturn();
    case Decode::kTrap:
      Emit(Micro::kTrap);
      return true;
    case Decode::kBarrier:
      return EmitBarrier(instr);
    case Decode::kFence:
      return EmitFence(instr);
    case Decode::kHint:
      return true;
    case Decode::kGridWait:
      if (instr.Has(Modifier::kWait)) Emit(Micro::kGridWait);
      return true;
    case Decode::kRegisters:
      return EmitRegisters(instr);
    case Decode::kPolicy:
      return EmitPolicy(instr);
    case Decode::kElect:
      return EmitElect(instr);
    case Decode::kCluster:
      return EmitCluster(instr);
    case Decode::kShuffle:
      return EmitShuffle(instr);
    case Decode::kWarpLevel:
      return EmitWarpLevel(instr);
    case Decode::kProduct:
      return EmitProduct(instr);
    case Decode::kFragment:
      return EmitFragment(instr);
    case Decode::kMatrixRows:
      return EmitMatrixRows(instr);
    case Decode::kWarpgroup:
      return EmitWarpgroup(instr);
    case Decode::kTensorMemory:
      return EmitTensorMemory(instr);
    case Decode::kMatrixMove:
      return EmitMatrixMove(instr);
    case Decode::kAsync:
      return EmitAsync(instr);
    case Decode::kTensorMap:
      return EmitTensorMap(instr);
    case Decode::kMemoryBarrier:
      return EmitMemoryBarrier(instr);
    case Decode::kCallOutOfLine:
      return EmitCall(instr);
    case Decode::kReport:
      return EmitReport(instr);
  }
  return false;
}

void Decoder::EmitGuarded(const Instr& instr) {
  const int predicate = register_slot_[static_cast<size_t>(instr.guard)];
  const uint32_t flip = instr.guard_negated ? kFullMask : 0;
  if (instr.op == Opcode::kRet || instr.op == Opcode::kExit) {
    SetMode(default_mode_);
    Op& op = Emit(Micro::kExitIf);
    op.src[0] = predicate;
    op.aux = flip;
    FinishBlock(op);
    return;
  }
  if (MaySwitch(instr) || instr.op == Opcode::kTrap) {
    // Jump over the instruction, so that the lanes join again after it.
    SetMode(default_mode_);
    Op& branch = Emit(Micro::kBranch);
    branch.src[0] = predicate;
    branch.aux = ~flip;
    FinishBlock(branch);
    const size_t at = code_->ops.size() - 1;
    EmitUnguarded(instr);
    SetMode(default_mode_);
    FinishBlock(Emit(Micro::kFall));
    code_->ops[at].target = static_cast<int32_t>(code_->ops.size());
    Emit(Micro::kMerge);
    return;
  }
  SetMode(ModeHint(instr));
  const FloatMode mode = mode_;
  Op& guard = Emit(Micro::kGuard);
  guard.src[0] = predicate;
  guard.aux = flip;
  const size_t at = code_->ops.size() - 1;
  EmitUnguarded(instr);
  code_->ops[at].count = static_cast<uint32_t>(code_->ops.size() - at - 1);
  if (mode != mode_) Fail("guarded " + instr.Mnemonic());
}

void Decoder::NoteInstruction(const Instr& instr) {
  const bool is_branch = (instr.op == Opcode::kBra && instr.guard >= 0) || instr.op == Opcode::kBrx;
  code_->instructions.push_back({static_cast<uint32_t>(code_->ops.size()), 0, ClassOf(instr),
                                 is_branch, IsFree(instr), IsRetried(instr),
                                 TensorOperations(instr)});
}

void Decoder::EmitInstr(const Instr& instr) {
  for (auto& [kind, used] : temporaries_used_) used = 0;
  ++block_count_;
  if (aliased_[static_cast<size_t>(current_)]) return NoteDefined(instr);
  if (instr.guard >= 0 && defined_slot_[static_cast<size_t>(instr.guard)] >= 0) {
    Emit(Micro::kCheckDefined).src[0] = defined_slot_[static_cast<size_t>(instr.guard)];
  }
  if (instr.op == Opcode::kBra) {
    EmitBranch(instr);
  } else if (instr.guard >= 0) {
    EmitGuarded(instr);
  } else {
    EmitUnguarded(instr);
  }
}

/// Sets the stack pointer to 0 and jumps to the kernel's body, which comes after called functions.
void Decoder::EmitStart() {
  label_at_[static_cast<size_t>(inlined_.entry)] = 1;
  const int zero = SharedConstant(SlotKind::kWord, 0);
  Op& clear = Emit(Form(Opcode::kMov, {Modifier::kB32}));
  clear.dst = stack_pointer_;
  for (int32_t& src : clear.src) src = zero;
  Op& jump = Emit(Micro::kJump);
  jump.target = inlined_.entry;
  jumps_.push_back(static_cast<int>(code_->ops.size()) - 1);
}

void Decoder::EmitBody() {
  const size_t count = function_.body.size();
  label_at_.assign(count + 1, 0);
  op_at_.assign(count + 1, 0);
  for (const Instr& instr : function_.body) {
    for (const Operand& operand : instr.operands) {
      if (operand.kind == OperandKind::kLabel) label_at_[static_cast<size_t>(operand.target)] = 1;
    }
  }
  for (const std::vector<int>& table : function_.branch_table_targets) {
    for (int target : table) label_at_[static_cast<size_t>(target)] = 1;
  }
  for (const CalledFunction& called : inlined_.functions) {
    label_at_[static_cast<size_t>(called.begin)] = 1;
  }
  if (!inlined_.functions.empty()) EmitStart();
  for (size_t i = 0; i <= count && !failed_; ++i) {
    if (label_at_[i] != 0) {
      SetMode(default_mode_);
      FinishBlock(Emit(Micro::kFall));
      op_at_[i] = static_cast<int>(code_->ops.size());
      Emit(Micro::kMerge);
    }
    current_ = static_cast<int>(std::min(i, count == 0 ? 0 : count - 1));
    if (i == count) break;
    NoteInstruction(function_.body[i]);
    EmitWgmmaUses(i);
    EmitInstr(function_.body[i]);
    code_->instructions.back().end_op = static_cast<uint32_t>(code_->ops.size());
  }
  SetMode(default_mode_);
  FinishBlock(Emit(Micro::kExit));
}

/// Checks the operands of branches, which the analyses before EmitBody rely on.
bool Decoder::CheckBranches() {
  for (size_t i = 0; i < function_.body.size(); ++i) {
    const Instr& instr = function_.body[i];
    if (instr.op != Opcode::kBra) continue;
    current_ = static_cast<int>(i);
    const bool right = instr.operands.size() == 1 && instr.operands[0].kind == OperandKind::kLabel;
    if (!right) return Fail(instr.Mnemonic() + " with these operands");
  }
  return true;
}

/// Replaces slot numbers by offsets, and instruction indices by op indices.
void Decoder::Resolve() {
  for (int jump : jumps_) {
    Op& op = code_->ops[static_cast<size_t>(jump)];
    op.target = op_at_[static_cast<size_t>(op.target)];
  }
  for (int32_t& target : code_->branch_targets) target = op_at_[static_cast<size_t>(target)];
  for (const CalledFunction& called : inlined_.functions) {
    const uint64_t address = AddressOfFunction(module_, called.function->name).value_or(0);
    code_->functions[address] = op_at_[static_cast<size_t>(called.begin)];
  }
  auto offset = [&](int32_t slot) {
    return slot < 0 ? -1 : slots_[static_cast<size_t>(slot)].offset;
  };
  for (size_t i = 0; i < code_->ops.size(); ++i) {
    Op& op = code_->ops[i];
    op.dst = offset(op.dst);
    for (int32_t& src : op.src) src = offset(src);
    if (code_->entries[i]->form.opcode == Opcode::kShfl) {
      op.imm = offset(static_cast<int32_t>(op.imm));  // the slot of the predicate
    }
  }
}

/// Assigns ids to source lines, for stamps (race_stamp.h).
void Decoder::NumberLines() {
  std::map<int, uint8_t> ids;
  for (const Source& source : code_->sources) {
    const int line = LineOf(module_, source.location).line;
    const auto next = static_cast<uint8_t>(std::min<size_t>(ids.size(), kLineIds - 1));
    const auto [at, added] = ids.emplace(line, next);
    if (added && next < kLineIds - 1) code_->line_of_id.push_back(line);
    code_->line_ids.push_back(at->second);
  }
  code_->line_ids.resize(code_->sources.size() + 1, kLineIds - 1);
}

/// Resolves the lists of operands.
void Decoder::ResolveLists() {
  for (int32_t& slot : code_->lists) {
    if (slot >= 0) slot = slots_[static_cast<size_t>(slot)].offset;  // negative ones are numbers
  }
}

/// True if only `st` instructions write to global memory.
bool HasPlainStores(const std::vector<Instr>& body) {
  return std::all_of(body.begin(), body.end(), [](const Instr& instr) {
    if (ClassOf(instr) != records::InstructionClass::kGlobal) return true;
    switch (RowOf(instr.op).memory) {
      case MemoryUse::kLoad:
      case MemoryUse::kStore:
      case MemoryUse::kPrefetch:
        return true;
      case MemoryUse::kFragment:
        return instr.Has(Modifier::kLoad);
      case MemoryUse::kCopy:
        return instr.Has(Modifier::kAsync) && !instr.Has(Modifier::kBulk);
      default:
        return false;
    }
  });
}

void Decoder::Decode(const ptx::Function& function, Kernel* kernel) {
  kernel_ = kernel;
  kernel->name = function.name;
  kernel->demangled = ptx::Demangle(function.name);
  kernel->param_bytes = function.param_bytes;
  kernel->explicit_cluster = function.explicit_cluster;
  if (const std::vector<int>& dims = function.cluster_dims; !dims.empty()) {
    const auto dim = [&](size_t i) {
      return i < dims.size() ? static_cast<uint32_t>(std::max(dims[i], 1)) : 1;
    };
    kernel->cluster = {dim(0), dim(1), dim(2)};
  }
  code_ = std::make_unique<Code>();
  code_->handlers = &handlers_;
  code_->module = &module_;
  inlined_ = InlineCalls(module_, function);
  function_ = std::move(inlined_.function);
  if (!inlined_.error.empty()) {
    current_ = inlined_.at;
    Fail(inlined_.error);
    return;
  }
  const std::vector<bool> cancels = CancelledRoundings(function_);
  for (const Instr& instr : function_.body) {
    code_->sources.push_back({instr.location, static_cast<uint32_t>(code_->statements.size())});
    const bool bare = instr.modifiers.empty();
    code_->statements.push_back({instr.Mnemonic(), instr.op,
                                 bare ? Type::kNone : ptx::TypeOf(instr.modifiers.back()),
                                 cancels[code_->statements.size()]});
  }
  NumberLines();
  if (!inlined_.functions.empty() && HasWideRegisters(function_)) {
    Fail("128-bit registers beside calls out of line");
    return;
  }
  SplitWideRegisters(&function_);
  code_->shared_granule_shift = GranuleShift(function_, MemorySpace::kShared);
  size_t flushing = 0, keeping = 0;
  for (const Instr& instr : function_.body) {
    const FloatMode mode = ModeHint(instr);
    flushing += mode == FloatMode::kFlush;
    keeping += mode == FloatMode::kIeee;
  }
  default_mode_ = mode_ = flushing > keeping ? FloatMode::kFlush : FloatMode::kIeee;
  code_->flush = default_mode_ == FloatMode::kFlush;
  if (CheckBranches()) PlaceVariables();
  if (!failed_) AssignSlots();
  if (!failed_) fusions_ = FuseSharedAccesses(function_);
  if (!failed_) wgmma_uses_ = WgmmaUsesOf(function_);
  if (!failed_) EmitBody();
  if (!failed_) LayOutFrame();
  if (failed_) return;
  code_->chains = ChainsOf(function_);
  Resolve();
  ResolveLists();
  code_->stores.resize(code_->ops.size());
  kernel->has_plain_stores = HasPlainStores(function_.body);
  kernel->code = std::move(code_);
  kernel->text = std::make_unique<KernelText>();
  kernel->text->aliased = std::move(aliased_);
  kernel->text->values = std::move(values_);
  kernel->text->has_calls = !inlined_.functions.empty();
  kernel->text->function = std::move(function_);
}

}  // namespace cupel::emu
