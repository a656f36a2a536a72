// Tested by stall_test.cc.
// SPDX-License-Identifier: Apache-2.0
#include "emu/loop_effects.h"

#include <algorithm>
#include <string_view>

#include "emu/barrier.h"
#include "emu/instrument.h"
#include "emu/mbarrier.h"

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

/// Ops whose key starts with '@', which are not in the tables of arithmetic.
OpEffect OfControl(std::string_view key, const Op& op) {
  static constexpr std::string_view kSilent[] = {"@jump",  "@merge",  "@fall",         "@mode",
                                                 "@yield", "@fence",  "@checkdefined", "@define",
                                                 "@exit",  "@nothing"};
  OpEffect effect;
  if (std::find(std::begin(kSilent), std::end(kSilent), key) != std::end(kSilent)) {
    effect.kind = Effect::kNothing;
  } else if (key == "@branch" || key == "@exitif" || key == "@guard") {
    effect.kind = key == "@guard" ? Effect::kGuard : Effect::kDecide;
    Reads(effect, op.src[0], SlotKind::kPredicate);
  } else if (key == "@brx") {
    effect.kind = Effect::kDecide;
    Reads(effect, op.src[0], SlotKind::kWord);
  } else if (key == "@syncwarp") {
    effect.kind = Effect::kDecide;  // depends on its mask
    Reads(effect, op.src[3], SlotKind::kWord);
  } else if (key == "@barrier") {
    effect.kind = Effect::kBarrier;
    Reads(effect, op.src[0], SlotKind::kWord);
    Reads(effect, op.src[1], SlotKind::kWord);
    Reads(effect, op.src[2], SlotKind::kPredicate);
    const bool counts = (op.aux & kBarrierPopc) != 0;
    if (op.src[2] >= 0) Writes(effect, op.dst, counts ? SlotKind::kWord : SlotKind::kPredicate);
  } else if (key == "@mbarrier.wait") {
    effect = OfWait(op);
  }
  return effect;
}

/// Integer sums, comparisons, selections and moves.
bool IsSimple(std::string_view key) {
  static constexpr std::string_view kNames[] = {"add", "sub", "mov", "setp", "selp",
                                                "min", "max", "and", "or",   "not",
                                                "shl", "shr", "cvt", "neg",  "clock"};
  const std::string_view name = key.substr(0, key.find('.'));
  return std::find(std::begin(kNames), std::end(kNames), name) != std::end(kNames) &&
         key.find(".f") == std::string_view::npos && key.find(".bf") == std::string_view::npos;
}

OpEffect OfTable(std::string_view key, const Entry& entry, const Op& op) {
  OpEffect effect;
  if (entry.dst == SlotKind::kNone) return effect;
  effect.kind = key.starts_with("clock.") ? Effect::kTime : Effect::kCompute;
  effect.is_simple = IsSimple(key);
  for (size_t i = 0; i < 4; ++i) {
    if (entry.src[i] != SlotKind::kNone) Reads(effect, op.src[i], entry.src[i]);
  }
  Writes(effect, op.dst, entry.dst);
  if (key.starts_with("shfl.")) {
    Writes(effect, static_cast<int32_t>(op.imm), SlotKind::kPredicate);
  }
  return effect;
}

}  // namespace

LoopEffects::LoopEffects(const Code& code, const std::vector<Handler>* originals) {
  const HandlerNames names(*code.handlers);
  effects_.reserve(code.ops.size());
  for (size_t i = 0; i < code.ops.size(); ++i) {
    Op op = code.ops[i];
    if (originals != nullptr) op.full = (*originals)[i];
    const std::string_view key = names.KeyOf(op);
    if (key == "@access" || key.starts_with("ld.") || key.starts_with("st.")) {
      effects_.push_back(OfAccess(op));
    } else if (key.starts_with("atom.")) {
      effects_.push_back(OfAtomic(op));
    } else if (key.empty() || key.starts_with('@')) {
      effects_.push_back(OfControl(key, op));
    } else {
      effects_.push_back(OfTable(key, *names.EntryOf(op), op));
    }
  }
}

}  // namespace cupel::emu
