// The rules of moves, integers, atomics and control flow.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "emu/core/handler_table.h"
#include "emu/isa/instructions.h"
#include "emu/shadow/rules.h"

namespace cupel::emu {
namespace {

using ptx::Modifier;
using ptx::Type;

void Use(Side& side, ShadowStep step, char detail) {
  side.step = step;
  side.detail = detail;
}

/// The letter of a part of a register: MoveStep's '0' to '3', or 'm' and 'y' for whole words.
bool ClassifyPart(const Form& form, Side& side) {
  const Type type = form.modifiers.back() == Modifier::kB32 ? Type::kB32 : Type::kB16;
  if (form.modifiers.back() == Modifier::kB8) return false;
  const int part = static_cast<int>(form.micro) - static_cast<int>(Micro::kPart0);
  if (type == Type::kB32) {
    Use(side, &MoveStep, part == 0 ? 'm' : 'y');
  } else {
    Use(side, &MoveStep, static_cast<char>('0' + part));
  }
  return true;
}

bool ClassifyPack(const Form& form, Side& side) {
  const Modifier whole = form.modifiers.front(), part = form.modifiers.back();
  if (part == Modifier::kB8) return false;
  Use(side, &MoveStep, part == Modifier::kB32 ? 'a' : (whole == Modifier::kB32 ? 'b' : 'c'));
  return true;
}

/// Conversions between integers that keep a float's bits.
bool ClassifyWidthChange(const Form& form, Side& side) {
  const ptx::Types types = ptx::TypesOf(form.modifiers);
  if (form.modifiers.size() != 2 || types.size() != 2) return false;
  switch (std::min<int>(ShadowTypeOf(types[0]).bytes, ShadowTypeOf(types[1]).bytes)) {
    case 2:
      Use(side, &MoveStep, '0');
      return true;
    case 4:
      Use(side, &MoveStep, 'm');
      return true;
    case 8:
      Use(side, &MoveStep, 'd');
      return true;
    default:
      return false;
  }
}

/// Integer sums and choices of at least 32 bits.
bool ClassifyChoice(const Form& form, const ShadowType& type, char detail, Side& side) {
  if (form.modifiers.size() != 1 || !type.known || type.bytes < 4) return false;
  side.is_signed = type.is_signed;
  Use(side, &ChoiceStep, detail);
  return true;
}

bool ClassifyLogic(const Form& form, char detail, Side& side) {
  if (form.modifiers.size() != 1) return false;
  Use(side, &LogicStep, detail);
  return true;
}

bool ClassifyGranules(bool fits, char detail, Side& side) {
  if (fits) Use(side, &GranuleStep, detail);
  return fits;
}

}  // namespace

bool ClassifyMove(const Form& form, Side& side) {
  if (side.dst == SlotKind::kPredicate) return false;
  const ShadowType type = LastTypeOf(form);
  switch (form.shadow()) {
    case ShadowRule::kMove:
      Use(side, &MoveStep, side.dst == SlotKind::kDouble ? 'd' : 'm');
      return true;
    case ShadowRule::kPack:
      return ClassifyPack(form, side);
    case ShadowRule::kPart:
      return ClassifyPart(form, side);
    case ShadowRule::kConvert:
      return ClassifyWidthChange(form, side);
    case ShadowRule::kPermute:
      return ClassifyGranules(form.modifiers.size() == 1, 'P', side);
    case ShadowRule::kFunnel:
      return ClassifyGranules(true, 'F', side);
    case ShadowRule::kShiftLeft:
      return ClassifyGranules(type.bytes >= 4, 'L', side);
    case ShadowRule::kShiftRight:
      return ClassifyGranules(type.bytes >= 4, 'R', side);
    case ShadowRule::kExtract:
      return ClassifyGranules(!type.is_signed, 'E', side);
    case ShadowRule::kInsert:
      return ClassifyGranules(true, 'I', side);
    case ShadowRule::kAnd:
      return ClassifyLogic(form, '&', side);
    case ShadowRule::kOr:
      return ClassifyLogic(form, '|', side);
    case ShadowRule::kXor:
      return ClassifyLogic(form, '^', side);
    case ShadowRule::kMul:
      if (form.modifiers.size() != 2 || form.modifiers.front() != Modifier::kLo || type.bytes < 4) {
        return false;
      }
      Use(side, &ChoiceStep, '*');
      return true;
    case ShadowRule::kAdd:
      return ClassifyChoice(form, type, '+', side);
    case ShadowRule::kSub:
      return ClassifyChoice(form, type, '-', side);
    case ShadowRule::kMin:
      return ClassifyChoice(form, type, '<', side);
    case ShadowRule::kMax:
      return ClassifyChoice(form, type, '>', side);
    default:
      return false;
  }
}

bool ClassifyControl(const Form& form, Side& side) {
  switch (form.shadow()) {
    case ShadowRule::kSilent:
      return true;
    case ShadowRule::kWait:
      Use(side, &WaitStep, 'w');
      return true;
    case ShadowRule::kElect:
      Use(side, &WaitStep, 'e');
      return true;
    case ShadowRule::kDecide:
      side.step = &BranchStep;
      side.src[0] = SlotKind::kPredicate;
      return true;
    case ShadowRule::kIndex:
      side.step = &BranchStep;
      side.src[0] = SlotKind::kWord;
      return true;
    default:
      return false;
  }
}

void ClassifyAtomic(const Form& form, Side& side) {
  const ShadowType type = LastTypeOf(form);
  const bool is_integer = type.format == Format::kInteger;
  side.format = type.format;
  side.is_signed = type.is_signed;
  side.detail = 'i';
  switch (form.modifiers.front()) {
    case Modifier::kAdd:
      side.detail = is_integer ? 'o' : '+';
      break;
    case Modifier::kOr:
    case Modifier::kXor:
      if (is_integer) side.detail = 'o';
      break;
    case Modifier::kExch:
      side.detail = 'x';
      break;
    case Modifier::kCas:
      side.detail = 'c';
      break;
    case Modifier::kMin:
      if (is_integer) side.detail = '<';
      break;
    case Modifier::kMax:
      if (is_integer) side.detail = '>';
      break;
    default:
      break;
  }
}

void ClassifyRest(const Form& form, bool is_lanewise, Side& side) {
  const ShadowType type = LastTypeOf(form);
  switch (form.shadow()) {
    case ShadowRule::kSelect:
      side.step = &SelectStep;
      return;
    case ShadowRule::kShuffle:
      switch (form.modifiers.front()) {
        case Modifier::kUp:
          return Use(side, &ShuffleStep, 'u');
        case Modifier::kDown:
          return Use(side, &ShuffleStep, 'd');
        case Modifier::kBfly:
          return Use(side, &ShuffleStep, 'b');
        default:
          return Use(side, &ShuffleStep, 'i');
      }
    case ShadowRule::kAcross:
      // activemask has no operands.
      side.step = side.sources == 0 ? &IntegerStep : &AcrossStep;
      return;
    case ShadowRule::kCompare: {
      const bool equality = form.modifiers.HasAny({Modifier::kEq, Modifier::kNe});
      side.from = type.format;
      Use(side, &CompareStep, equality ? '=' : '\0');
      if (form.micro == Micro::kHigh) side.detail = 'h';
      return;
    }
    default:
      break;
  }
  if (!form.modifiers.empty() && form.modifiers.back() == Modifier::kPred) {
    side.step = &PredicateStep;
  } else {
    // An op that is not lane by lane may read any lane.
    side.step = side.sources == 0 || is_lanewise ? &IntegerStep : &AcrossStep;
  }
}

}  // namespace cupel::emu
