// Tested by wrap_test.cc.
// SPDX-License-Identifier: Apache-2.0
#include "emu/check/wrap_code.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>

#include "emu/check/report.h"
#include "emu/core/block_state.h"
#include "emu/core/handler_table.h"
#include "emu/core/instrument.h"
#include "emu/core/kernel.h"
#include "emu/core/kernel_text.h"
#include "emu/core/launch_state.h"
#include "emu/core/source_line.h"
#include "emu/core/worker.h"
#include "emu/isa/form.h"

namespace cupel::emu {
namespace {

constexpr int32_t kRegister = 128;  // bytes of the frame

WarpWraps& WrapsOf(const Warp& warp) { return warp.block->wraps[warp.index]; }

/// A value that a lane computes with.
struct ExactValue {
  int64_t value = 0;
  std::optional<uint32_t> source;  // where it exceeded 32 bits
};

uint64_t ExactBitsAt(const Warp& warp, int32_t slot, bool is_wide, int lane) {
  return is_wide ? At<const uint64_t>(warp, slot)[lane] : At<const uint32_t>(warp, slot)[lane];
}

WarpWraps::Register* RegisterAt(const WarpWraps& wraps, int32_t slot) {
  const auto index = static_cast<size_t>(slot / kRegister);
  return slot < 0 || index >= wraps.registers.size() ? nullptr : wraps.registers[index].get();
}

/// The exact value of a source. Nullopt if the bits do not say whether it is negative.
std::optional<ExactValue> ValueOf(const Warp& warp, const WarpWraps& wraps, int32_t slot,
                                  bool is_wide, int lane) {
  const uint64_t bits = ExactBitsAt(warp, slot, is_wide, lane);
  const WarpWraps::Register* known = RegisterAt(wraps, slot);
  if (known != nullptr && ((known->known >> lane) & 1u) != 0 && known->bits[lane] == bits) {
    const uint32_t source = known->source[lane];
    return ExactValue{known->exact[lane],
                      source == UINT32_MAX ? std::nullopt : std::optional(source)};
  }
  if (is_wide) return ExactValue{static_cast<int64_t>(bits), {}};
  const auto signed_value = static_cast<int32_t>(static_cast<uint32_t>(bits));
  const auto index = static_cast<size_t>(slot / kRegister);
  const bool is_constant = index < wraps.code->is_constant.size() && wraps.code->is_constant[index];
  if (signed_value < 0 && !is_constant) return std::nullopt;
  return ExactValue{signed_value, {}};
}

/// The exact result of a lane. Nullopt if it is not known, or exceeds 64 bits.
std::optional<ExactValue> ResultOf(const Warp& warp, const Op* op, const WrapCode::Side& side,
                                   int lane) {
  const WarpWraps& wraps = WrapsOf(warp);
  const auto source = [&](int i, bool is_wide) {
    return ValueOf(warp, wraps, op->src[i], is_wide, lane);
  };
  const bool shifts = side.rule == WrapRule::kShl;
  const auto a = source(0, side.is_wide_source);
  if (!a) return std::nullopt;
  if (side.rule == WrapRule::kMove) return a;
  const auto b = source(1, side.is_wide_source && !shifts);
  if (!b) return std::nullopt;
  ExactValue result{0, a->source ? a->source : b->source};
  bool fits = true;
  switch (side.rule) {
    case WrapRule::kAdd:
      fits = !__builtin_add_overflow(a->value, b->value, &result.value);
      break;
    case WrapRule::kSub:
      fits = !__builtin_sub_overflow(a->value, b->value, &result.value);
      break;
    case WrapRule::kShl:
      fits = b->value >= 0 && b->value < 62 &&
             !__builtin_mul_overflow(a->value, int64_t{1} << b->value, &result.value);
      break;
    default:
      fits = !__builtin_mul_overflow(a->value, b->value, &result.value);
  }
  if (!fits) return std::nullopt;
  if (side.rule != WrapRule::kMad) return result;
  const auto c = source(2, side.is_wide_last);
  if (!c || __builtin_add_overflow(result.value, c->value, &result.value)) return std::nullopt;
  if (!result.source) result.source = c->source;
  return result;
}

/// Notes the exact results of an op that has run.
void NoteExact(Warp& warp, const Op* op, const WrapCode::Side& side, uint32_t active,
               const std::optional<ExactValue> (&results)[kLanes]) {
  WarpWraps& wraps = WrapsOf(warp);
  const auto index = static_cast<size_t>(op->dst / kRegister);
  if (op->dst < 0 || index >= wraps.registers.size()) return;
  auto& place = wraps.registers[index];
  if (place != nullptr) place->known &= ~active;
  for (uint32_t rest = active; rest != 0; rest &= rest - 1) {
    const int lane = __builtin_ctz(rest);
    const std::optional<ExactValue>& result = results[lane];
    if (!result) continue;
    const uint64_t bits = ExactBitsAt(warp, op->dst, side.is_wide, lane);
    if (static_cast<uint64_t>(result->value) == bits &&
        (side.is_wide || bits < uint64_t{1} << 31)) {
      continue;  // the bits say it alone
    }
    if (place == nullptr) place = std::make_unique<WarpWraps::Register>();
    place->known |= 1u << lane;
    place->exact[lane] = result->value;
    place->bits[lane] = bits;
    const bool is_exceeded =
        !side.is_wide && (result->value > INT32_MAX || result->value < INT32_MIN);
    place->source[lane] = result->source ? *result->source : is_exceeded ? op->source : UINT32_MAX;
  }
}

template <bool IsMasked>
const Op* WrapThunk(Warp& warp, const Op* op) {
  const WrapCode::Side& side = WrapsOf(warp).code->sides[static_cast<size_t>(op - warp.code)];
  const uint32_t active = IsMasked ? warp.active : kFullMask;
  std::optional<ExactValue> results[kLanes];
  for (uint32_t rest = active; rest != 0; rest &= rest - 1) {
    const int lane = __builtin_ctz(rest);
    results[lane] = ResultOf(warp, op, side, lane);
  }
  const Op* next = side.is_lanewise ? CallLanewise(warp, op, side.full, side.masked, IsMasked)
                                    : (IsMasked ? side.masked : side.full)(warp, op);
  if (next != nullptr) NoteExact(warp, op, side, active, results);
  return next;
}

/// A register has another value now, which may have the same bits.
void Forget(const Warp& warp, int32_t slot, uint32_t lanes) {
  if (WarpWraps::Register* known = RegisterAt(WrapsOf(warp), slot)) known->known &= ~lanes;
}

/// Ops whose results are as meant.
template <bool IsMasked>
const Op* ForgetThunk(Warp& warp, const Op* op) {
  const WrapCode::Side& side = WrapsOf(warp).code->sides[static_cast<size_t>(op - warp.code)];
  Forget(warp, op->dst, IsMasked ? warp.active : kFullMask);
  return CallLanewise(warp, op, side.full, side.masked, IsMasked);
}

int LineOfInstruction(const Warp& warp, uint32_t source) {
  const Code& code = *warp.worker->launch->code;
  if (source >= code.sources.size()) return 0;
  return LineOf(*code.module, code.sources[source].location).line;
}

template <bool IsMasked>
const Op* WrapAccessThunk(Warp& warp, const Op* op) {
  const WarpWraps& wraps = WrapsOf(warp);
  const WrapCode::Side& side = wraps.code->sides[static_cast<size_t>(op - warp.code)];
  const uint32_t active = IsMasked ? warp.active : kFullMask;
  const WarpWraps::Register* known = RegisterAt(wraps, op->src[0]);
  for (uint32_t rest = known == nullptr ? 0 : known->known & active; rest != 0; rest &= rest - 1) {
    const int lane = __builtin_ctz(rest);
    const uint64_t address = At<const uint64_t>(warp, op->src[0])[lane];
    if (known->bits[lane] != address || known->source[lane] == UINT32_MAX) continue;
    const int64_t away = known->exact[lane] - static_cast<int64_t>(address);
    const int line = LineOfInstruction(warp, known->source[lane]);
    return Fault(
        warp, op, "wrapped_index",
        fmt::format("The address is {} bytes {} the one that is meant: arithmetic of 32 bits{} "
                    "exceeds its range.",
                    away < 0 ? -away : away, away < 0 ? "above" : "below",
                    line > 0 ? fmt::format(" at line {}", line) : ""),
        lane);
  }
  const AccessShape shape = AccessShape::Unpack(op->aux);
  if (!shape.store || shape.is_atomic) {
    Forget(warp, op->dst, active);
    for (uint32_t i = 1; i < std::min(shape.elements, 4u); ++i) Forget(warp, op->src[i], active);
  }
  return (IsMasked ? side.masked : side.full)(warp, op);
}

/// The parts of a canonical mnemonic: "mad.lo.s32".
bool BeginsWith(std::string_view name, std::string_view word) {
  return name.starts_with(word) && name.size() > word.size() && name[word.size()] == '.';
}
std::string_view LastWord(std::string_view name) { return name.substr(name.rfind('.') + 1); }
bool IsInteger(std::string_view type, std::string_view bits) {
  return type.size() == 3 && std::string_view("sub").find(type[0]) != std::string_view::npos &&
         type.substr(1) == bits;
}

WrapCode::Side WrapSideOf(const Entry& entry) {
  WrapCode::Side side;
  const std::string name = Name(entry.form);
  const std::string_view type = LastWord(name);
  const bool is_word = IsInteger(type, "32"), is_double = IsInteger(type, "64");
  if (!is_word && !is_double) return side;
  side.is_signed = type[0] != 'u';
  side.is_wide = side.is_wide_source = side.is_wide_last = is_double;
  if (BeginsWith(name, "add")) side.rule = WrapRule::kAdd;
  if (BeginsWith(name, "sub")) side.rule = WrapRule::kSub;
  if (BeginsWith(name, "mul.lo")) side.rule = WrapRule::kMul;
  if (BeginsWith(name, "mad.lo")) side.rule = WrapRule::kMad;
  if (BeginsWith(name, "shl")) side.rule = WrapRule::kShl;
  if (BeginsWith(name, "mov")) side.rule = WrapRule::kMove;
  if (is_word && (BeginsWith(name, "mul.wide") || BeginsWith(name, "mad.wide"))) {
    side.rule = BeginsWith(name, "mul.wide") ? WrapRule::kMul : WrapRule::kMad;
    side.is_wide = side.is_wide_last = true;
  }
  if (is_word && (BeginsWith(name, "cvt.s64") || BeginsWith(name, "cvt.u64"))) {
    side.rule = WrapRule::kMove;
    side.is_wide = true;
  }
  return side;
}

/// Whether the op accesses global memory at the address in its first source.
bool IsAccess(const Entry& entry, const Op& op) {
  const Form& form = entry.form;
  const bool accesses = form.micro == Micro::kAccess || form.opcode == ptx::Opcode::kLd ||
                        form.opcode == ptx::Opcode::kSt || form.opcode == ptx::Opcode::kAtom ||
                        form.opcode == ptx::Opcode::kRed;
  if (!accesses) return false;
  const MemorySpace space = AccessShape::Unpack(op.aux).space;
  return space == MemorySpace::kGlobal || space == MemorySpace::kGeneric;
}

}  // namespace

void WarpWraps::Clear() {
  for (auto& one : registers) {
    if (one != nullptr) one->known = 0;
  }
}

std::unique_ptr<WrapCode> MakeWrapCode(const Kernel& kernel) {
  if (kernel.text == nullptr || kernel.code == nullptr || kernel.text->has_calls) return nullptr;
  auto wraps = std::make_unique<WrapCode>();
  const Code& code = *kernel.code;
  wraps->sides.resize(code.ops.size());
  int32_t last = 0;
  for (const Op& op : code.ops) last = std::max({last, op.dst, op.src[0], op.src[1], op.src[2]});
  wraps->is_constant.resize(static_cast<size_t>(last / kRegister) + 2);
  for (const ConstantSlot& slot : code.constants) {
    const auto index = static_cast<size_t>(slot.offset / kRegister);
    if (slot.offset >= 0 && index < wraps->is_constant.size()) wraps->is_constant[index] = true;
  }
  wraps->variant = MakeVariant(code, [&](size_t index, const Op& op) -> Thunks {
    const Entry& entry = *code.entries[index];
    WrapCode::Side& side = wraps->sides[index];
    const bool accesses = IsAccess(entry, op);
    if (!accesses) side = WrapSideOf(entry);
    if (!accesses && side.rule == WrapRule::kNone && !entry.is_lanewise) return {};
    if (accesses) side.rule = WrapRule::kAccess;
    side.full = op.full;
    side.masked = op.masked;
    side.is_lanewise = entry.is_lanewise;
    if (side.rule == WrapRule::kNone) return {&ForgetThunk<false>, &ForgetThunk<true>};
    if (accesses) return {&WrapAccessThunk<false>, &WrapAccessThunk<true>};
    return {&WrapThunk<false>, &WrapThunk<true>};
  });
  return wraps;
}

}  // namespace cupel::emu
