// Tested by stall_test.cc.
// SPDX-License-Identifier: Apache-2.0
#include "emu/stall/loop_effects.h"

#include <algorithm>

#include "emu/core/code.h"
#include "emu/core/handler_table.h"
#include "emu/core/op.h"
#include "emu/core/op_flags.h"
#include "emu/isa/instructions.h"

namespace cupel::emu {
namespace {

int32_t BytesOf(SlotKind kind) {
  switch (kind) {
    case SlotKind::kPredicate:
      return 4;
    case SlotKind::kWord:
      return 4 * kLanes;
    case SlotKind::kDouble:
      return 8 * kLanes;
    case SlotKind::kNone:
      break;
  }
  return 0;
}

void Reads(OpEffect& effect, int32_t offset, SlotKind kind) {
  if (offset >= 0) effect.read[effect.reads++] = {offset, BytesOf(kind)};
}
void Writes(OpEffect& effect, int32_t offset, SlotKind kind) {
  if (offset >= 0) effect.written[effect.writes++] = {offset, BytesOf(kind)};
}

bool IsWide(MemorySpace space) {
  return space == MemorySpace::kGlobal || space == MemorySpace::kGeneric;
}

OpEffect OfAccess(const Op& op) {
  const AccessShape shape = AccessShape::Unpack(op.aux);
  OpEffect effect;
  effect.kind = shape.store ? Effect::kWrite : Effect::kRead;
  effect.is_strong = shape.is_volatile || shape.is_atomic;
  Reads(effect, op.src[0], IsWide(shape.space) ? SlotKind::kDouble : SlotKind::kWord);
  const SlotKind kind = shape.element_bytes == 8 ? SlotKind::kDouble : SlotKind::kWord;
  for (uint32_t i = 0; i < std::min(shape.elements, 4u); ++i) {
    const int32_t slot = i == 0 ? op.dst : op.src[i];
    shape.store ? Reads(effect, slot, kind) : Writes(effect, slot, kind);
  }
  return effect;
}

OpEffect OfAtomic(const Op& op) {
  const AccessShape shape = AccessShape::Unpack(op.aux);
  const SlotKind kind = shape.element_bytes == 8 ? SlotKind::kDouble : SlotKind::kWord;
  OpEffect effect;
  effect.kind = Effect::kUpdate;
  effect.is_strong = true;
  Reads(effect, op.src[0], IsWide(shape.space) ? SlotKind::kDouble : SlotKind::kWord);
  Reads(effect, op.src[1], kind);
  Reads(effect, op.src[2], kind);
  Writes(effect, op.dst, kind);
  return effect;
}

OpEffect OfWait(const Op& op) {
  OpEffect effect;
  effect.kind = Effect::kWait;
  effect.is_strong = true;
  const bool generic = (op.aux & kMbarrierGeneric) != 0, parity = (op.aux & kMbarrierParity) != 0;
  Reads(effect, op.src[0], generic ? SlotKind::kDouble : SlotKind::kWord);
  Reads(effect, op.src[1], parity ? SlotKind::kWord : SlotKind::kDouble);
  Writes(effect, op.dst, SlotKind::kPredicate);
  return effect;
}

/// Ops of the emulator's own.
OpEffect OfMicro(Micro micro, const Op& op) {
  OpEffect effect;
  effect.kind = RowOf(micro).effect;
  switch (effect.kind) {
    case Effect::kDecide:
    case Effect::kGuard:
      if (micro == Micro::kSyncWarp) {
        Reads(effect, op.src[3], SlotKind::kWord);  // depends on its mask
      } else {
        const bool by_index = micro == Micro::kIndexedBranch;
        Reads(effect, op.src[0], by_index ? SlotKind::kWord : SlotKind::kPredicate);
      }
      return effect;
    case Effect::kBarrier: {
      Reads(effect, op.src[0], SlotKind::kWord);
      Reads(effect, op.src[1], SlotKind::kWord);
      Reads(effect, op.src[2], SlotKind::kPredicate);
      const bool counts = (op.aux & kBarrierPopc) != 0;
      if (op.src[2] >= 0) Writes(effect, op.dst, counts ? SlotKind::kWord : SlotKind::kPredicate);
      return effect;
    }
    case Effect::kWait:
      return OfWait(op);
    default:
      return effect;
  }
}

/// Integer sums, comparisons, selections and moves.
bool IsSimple(const Form& form) {
  using enum ptx::Opcode;
  switch (form.opcode) {
    case kAdd:
    case kSub:
    case kMov:
    case kSetp:
    case kSelp:
    case kMin:
    case kMax:
    case kAnd:
    case kOr:
    case kNot:
    case kShl:
    case kShr:
    case kCvt:
    case kNeg:
      break;
    default:
      return RowOf(form.micro).effect == Effect::kTime;
  }
  const ptx::Types types = ptx::TypesOf(form.modifiers);
  return std::none_of(types.begin(), types.end(), [](ptx::Type type) {
    return type == ptx::Type::kF16 || type == ptx::Type::kF16x2 || type == ptx::Type::kBF16 ||
           type == ptx::Type::kBF16x2 || type == ptx::Type::kF32 || type == ptx::Type::kF32x2 ||
           type == ptx::Type::kF64;
  });
}

/// Ops whose operands the handler table lists.
OpEffect OfTable(const Entry& entry, const Op& op) {
  OpEffect effect;
  const bool reads_clock = RowOf(entry.form.micro).effect == Effect::kTime;
  effect.kind = reads_clock ? Effect::kTime : Effect::kCompute;
  effect.is_simple = IsSimple(entry.form);
  for (size_t i = 0; i < 4; ++i) {
    if (entry.src[i] != SlotKind::kNone) Reads(effect, op.src[i], entry.src[i]);
  }
  Writes(effect, op.dst, entry.dst);
  if (entry.form.opcode == ptx::Opcode::kShfl) {
    Writes(effect, static_cast<int32_t>(op.imm), SlotKind::kPredicate);
  }
  return effect;
}

OpEffect EffectOf(const Entry& entry, const Op& op) {
  switch (entry.form.shadow()) {
    case ShadowRule::kAccess:
      return OfAccess(op);
    case ShadowRule::kAtomic:
      return OfAtomic(op);
    default:
      return entry.dst != SlotKind::kNone ? OfTable(entry, op) : OfMicro(entry.form.micro, op);
  }
}

}  // namespace

LoopEffects::LoopEffects(const Code& code) {
  effects_.reserve(code.ops.size());
  for (size_t i = 0; i < code.ops.size(); ++i) {
    effects_.push_back(EffectOf(*code.entries[i], code.ops[i]));
  }
}

}  // namespace cupel::emu
