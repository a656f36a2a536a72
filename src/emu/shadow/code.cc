// Chooses the shadow step of each micro-op by the rule in its row of the table.
// SPDX-License-Identifier: Apache-2.0
#include "emu/core/code.h"

#include <algorithm>
#include <map>

#include "emu/core/handler_table.h"
#include "emu/core/op.h"
#include "emu/core/spaces.h"
#include "emu/core/warp.h"
#include "emu/isa/instructions.h"
#include "emu/shadow/rules.h"
#include "emu/shadow/shadow.h"

namespace cupel::emu {
namespace {

class Classifier {
 public:
  explicit Classifier(const Code& code) : code_(code), magic_(MagicConstants(code)) {}

  /// Fills `side`. The caller chooses thunks by it.
  void Classify(const Op& op, const Entry& entry, Side& side) const {
    const Form& form = entry.form;
    side.dst = entry.dst;
    side.cancels = code_.statements[code_.sources[op.source].statement].cancels;
    while (side.sources < 4 && entry.src[side.sources] != SlotKind::kNone) {
      side.src[side.sources] = entry.src[side.sources];
      ++side.sources;
    }
    if (form.shadow() == ShadowRule::kAccess) {
      side.from = LoadedFormat(op);
    } else if (form.shadow() == ShadowRule::kAtomic) {
      ClassifyAtomic(form, side);
    } else if (side.dst == SlotKind::kNone) {
      if (!ClassifyControl(form, side)) side.step = &UnknownStep;
    } else {
      const auto is_magic = [&](const Side& sum) { return IsMagic(op, sum); };
      if (!ClassifyFloat(form, is_magic, side) && !ClassifyMove(form, side)) {
        ClassifyRest(form, entry.is_lanewise, side);
      }
    }
  }

 private:
  /// The type that a load names. It identifies floats that were never computed.
  Format LoadedFormat(const Op& op) const {
    switch (code_.statements[code_.sources[op.source].statement].type) {
      case ptx::Type::kF32:
        return Format::kF32;
      case ptx::Type::kF64:
        return Format::kF64;
      default:
        return Format::kInteger;
    }
  }

  bool IsMagic(const Op& op, const Side& side) const {
    const bool sums = side.operation == Exact::kAdd || side.operation == Exact::kSub;
    if (!sums && side.operation != Exact::kFma) return false;
    for (int s = sums ? 0 : 2; s < (sums ? 2 : 3); ++s) {
      const auto found = magic_.find(op.src[s]);
      if (found != magic_.end() && found->second == side.last) return true;
    }
    return false;
  }

  const Code& code_;
  std::map<int32_t, Format> magic_;
};

/// The thunks of ops that have their own.
Thunks OwnThunks(const Op& op, const Form& form) {
  switch (form.shadow()) {
    case ShadowRule::kAccess:
      return AccessShape::Unpack(op.aux).store ? StoreThunks() : LoadThunks();
    case ShadowRule::kAtomic:
      return AtomicThunks();
    case ShadowRule::kProduct:
      return ProductThunks();
    case ShadowRule::kIntegerProduct:
      return IntegerProductThunks();
    case ShadowRule::kRows:
      return RowsThunks();
    case ShadowRule::kFragment:
      return FragmentThunks();
    case ShadowRule::kExpand:
      return ExpandThunks();
    case ShadowRule::kTranspose:
      return TransposeThunks();
    case ShadowRule::kWarpgroupRead:
      return WarpgroupReadThunks();
    case ShadowRule::kWarpgroupClear:
      return WarpgroupClearThunks();
    case ShadowRule::kCopy:
      return CopyThunks();
    case ShadowRule::kStoreAsync:
      return StoreAsyncThunks();
    case ShadowRule::kBulkCopy:
      return BulkCopyThunks();
    case ShadowRule::kCall:
      return CallThunks();
    case ShadowRule::kReturn:
      return ReturnThunks();
    case ShadowRule::kCopyLocal:
      return CopyLocalThunks();
    default:
      return {};
  }
}

/// Sets the shadow of the slot that the op has written.
void Finish(WarpShadow& ws, const Warp& warp, const Op* op, const Side& side) {
  if (side.dst != SlotKind::kWord && side.dst != SlotKind::kDouble) return;
  const bool wide = side.dst == SlotKind::kDouble;
  if (ws.result->planes == 0) {
    ClearShadow(ws, warp, op->dst, wide);
  } else {
    CommitShadow(ws, warp, op->dst, wide);
  }
}

/// Whether any kernel loads 32-bit integers from global memory, which another kernel may have
/// stored.
bool LoadsIntegers(const ptx::Module& module) {
  const auto loads = [](const ptx::Instr& instr) {
    if (instr.op != ptx::Opcode::kLd || instr.modifiers.empty()) return false;
    const ptx::Type type = ptx::TypeOf(instr.modifiers.back());
    if (type != ptx::Type::kB32 && type != ptx::Type::kU32 && type != ptx::Type::kS32) return false;
    return !instr.Has(ptx::Modifier::kParam) && !instr.Has(ptx::Modifier::kShared) &&
           !instr.Has(ptx::Modifier::kLocal);
  };
  return std::any_of(module.functions.begin(), module.functions.end(), [&](const auto& function) {
    return std::any_of(function.body.begin(), function.body.end(), loads);
  });
}

void NoteIntegers(const Op& op, const Side& side, ShadowCode& code) {
  const AccessShape shape = AccessShape::Unpack(op.aux);
  if (shape.store || shape.element_bytes != 4 || side.from != Format::kInteger) return;
  const bool generic = shape.space == MemorySpace::kGeneric;
  code.shared_integers |= generic || IsShared(shape.space);
  code.local_integers |= generic || shape.space == MemorySpace::kLocal;
}

template <bool IsMasked>
const Op* LanewiseThunk(Warp& warp, const Op* op) {
  WarpShadow& ws = *warp.shadow;
  const Side& side = ws.sides[op - warp.code];
  ws.op = op;
  side.step(ws, warp, op, side);
  const Op* next = CallLanewise(warp, op, side.full, side.masked, IsMasked);
  if (next != nullptr) Finish(ws, warp, op, side);
  return next;
}
template <bool IsMasked>
const Op* InPlaceThunk(Warp& warp, const Op* op) {
  WarpShadow& ws = *warp.shadow;
  const Side& side = ws.sides[op - warp.code];
  ws.op = op;
  side.step(ws, warp, op, side);
  const Op* next = (IsMasked ? side.masked : side.full)(warp, op);
  if (next != nullptr) Finish(ws, warp, op, side);
  return next;
}

}  // namespace

std::unique_ptr<ShadowCode> MakeShadowCode(const Code& code) {
  auto shadows = std::make_unique<ShadowCode>();
  shadows->sides.resize(code.ops.size());
  shadows->sites.resize(code.ops.size());
  shadows->decisions.resize(code.ops.size());
  shadows->global_integers = code.module == nullptr || LoadsIntegers(*code.module);
  const Classifier classifier(code);
  shadows->variant = MakeVariant(code, [&](size_t index, const Op& op) -> Thunks {
    Side& side = shadows->sides[index];
    side.full = op.full;
    side.masked = op.masked;
    const Entry& entry = *code.entries[index];
    classifier.Classify(op, entry, side);
    if (entry.form.shadow() == ShadowRule::kAccess) NoteIntegers(op, side, *shadows);
    if (const Thunks own = OwnThunks(op, entry.form); own.full != nullptr) return own;
    if (side.step == nullptr) return {};
    if (side.step == &UnknownStep) {
      std::string mnemonic = code.statements[code.sources[op.source].statement].mnemonic;
      std::vector<std::string>& unknown = shadows->unknown;
      if (std::find(unknown.begin(), unknown.end(), mnemonic) == unknown.end()) {
        unknown.push_back(std::move(mnemonic));
      }
      side.dst = SlotKind::kNone;
    }
    if (entry.is_lanewise) return {&LanewiseThunk<false>, &LanewiseThunk<true>};
    return {&InPlaceThunk<false>, &InPlaceThunk<true>};
  });
  return shadows;
}

}  // namespace cupel::emu
