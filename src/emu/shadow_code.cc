// Chooses the shadow step of each instruction from the keys of the handler table.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>
#include <optional>
#include <string_view>

#include "emu/shadow.h"
#include "emu/shadow_names.h"

namespace cupel::emu {
namespace {

class Classifier {
 public:
  explicit Classifier(const Code& code)
      : code_(code), names_(*code.handlers), magic_(MagicConstants(code)) {}

  /// Fills `side`. The caller chooses thunks by it.
  void Classify(const Op& op, Side& side, bool* is_access, bool* is_atomic) const {
    const std::string_view key = names_.KeyOf(op);
    const Words words = Split(key);
    if (const Entry* entry = names_.EntryOf(op)) {
      side.dst = entry->dst;
      while (side.sources < 4 && entry->src[side.sources] != SlotKind::kNone) {
        side.src[side.sources] = entry->src[side.sources];
        ++side.sources;
      }
    }
    const std::string_view name = words[0];
    *is_access = name == "ld" || name == "st" || key == "@access";
    *is_atomic = name == "atom";
    if (*is_access) {
      side.from = LoadedFormat(op);
    } else if (*is_atomic) {
      ClassifyAtomic(words, side);
    } else if (key.starts_with('@')) {
      ClassifyControl(key, side);
    } else if (key.empty() || (side.dst == SlotKind::kNone && name != "clock")) {
      side.step = &UnknownStep;
    } else if (!ClassifyFloat(op, words, side) && !ClassifyMove(words, side)) {
      ClassifyRest(op, words, side);
    }
  }
  /// The thunks of ops that have their own.
  Thunks OwnThunks(const Op& op) const {
    const std::string_view key = names_.KeyOf(op);
    if (key == "@mma.integer" || key == "@mma.bits") return IntegerProductThunks();
    if (key == "@mma.float" || key == "@mma.double") return ProductThunks();
    if (key == "@matrixrows" || key == "@fragment" || key.starts_with("movmatrix.")) {
      return MatrixThunks(key);
    }
    if (key == "@cp.async" || key == "@bulk") return CopyThunks(key);
    if (key == "@call" || key == "@return" || key == "@copylocal") return CallThunks(key);
    return {};
  }
  bool IsLanewise(const Op& op) const { return names_.IsLanewise(op); }

 private:
  /// The type that a load names. It identifies floats that were never computed.
  Format LoadedFormat(const Op& op) const {
    const std::string& mnemonic = code_.mnemonics[code_.sources[op.source].instr];
    if (mnemonic.ends_with(".f32")) return Format::kF32;
    return mnemonic.ends_with(".f64") ? Format::kF64 : Format::kInteger;
  }

  bool ClassifyFloat(const Op& op, const Words& words, Side& side) const {
    const TypeName to =
        TypeOf(words.size() > 1 && words[0] == "cvt" ? words[words.size() - 2] : words.back());
    if (words[0] == "cvt" && ClassifySmall(words, side)) return true;
    if (to.format == Format::kInteger) return false;
    if (words[0] == "cvt") {
      const TypeName from = TypeOf(words.back());
      if (!from.known || (from.packed != to.packed && side.sources != 2)) return false;
      side.operation = Exact::kMove;
      side.from = side.last = from.format;
      side.bytes = from.bytes;
      side.is_signed = from.is_signed;
      for (const char* rounding : {"rni", "rmi", "rpi", "rzi"}) side.magic |= Has(words, rounding);
    } else {
      const std::optional<Arithmetic> arithmetic = ArithmeticOf(words[0]);
      const TypeName sum = MixedSum(words);
      if (!arithmetic || arithmetic->sources != side.sources || (!IsPlain(words) && !sum.known)) {
        return false;
      }
      side.operation = arithmetic->operation;
      side.from = side.last = to.format;
      if (sum.known) side.last = sum.format;
      side.magic = IsMagic(op, side);
      if (sum.known) {
        side.format = sum.format;
        side.saturates = Has(words, "sat");
        side.step = &FloatStep;
        return true;
      }
    }
    side.format = to.format;
    side.packed = to.packed;
    side.saturates = Has(words, "sat");
    side.relu = Has(words, "relu");
    side.step = &FloatStep;
    return true;
  }

  /// True for operands of one type without a preceding operation.
  static bool IsPlain(const Words& words) {
    const auto types = std::count_if(words.begin() + 1, words.end(),
                                     [](std::string_view word) { return TypeOf(word).known; });
    const bool changed = std::find(words.begin() + 1, words.end(), "abs") != words.end();
    return types == 1 && !Has(words, "xorsign") && !changed;
  }

  /// The type of the sum in "fma.rn.f32.f16": products or numbers of a shorter format plus a float.
  static TypeName MixedSum(const Words& words) {
    const size_t count = words.size();
    const bool sums = words[0] == "add" || words[0] == "sub" || words[0] == "fma";
    if (!sums || count < 3 || (words[count - 1] != "f16" && words[count - 1] != "bf16")) return {};
    return words[count - 2] == "f32" ? TypeOf("f32") : TypeName{};
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

  void ClassifyRest(const Op& op, const Words& words, Side& side) const {
    const std::string_view name = words[0];
    if (name == "selp") {
      side.step = &SelectStep;
    } else if (name == "shfl") {
      side.step = &ShuffleStep;
      side.detail = words[1][0];
    } else if (name == "vote" || name == "redux" || name == "match") {
      side.step = &AcrossStep;
    } else if (name == "setp") {
      const bool part = words.back() == "low" || words.back() == "high";
      const TypeName type = TypeOf(part ? words[words.size() - 2] : words.back());
      side.step = &CompareStep;
      side.from = type.format;
      const bool equality = words[1] == "eq" || words[1] == "ne";
      side.detail = equality ? '=' : '\0';
      if (words.back() == "high") side.detail = 'h';
    } else if (words.back() == "pred") {
      side.step = &PredicateStep;
    } else {
      // An op that is not lane by lane may read any lane.
      side.step = side.sources == 0 || names_.IsLanewise(op) ? &IntegerStep : &AcrossStep;
    }
  }

  const Code& code_;
  HandlerNames names_;
  std::map<int32_t, Format> magic_;
};

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
    if (instr.op != "ld" || instr.modifiers.empty()) return false;
    const std::string& type = instr.modifiers.back();
    if (type != "b32" && type != "u32" && type != "s32") return false;
    return !instr.Has("param") && !instr.Has("shared") && !instr.Has("local");
  };
  return std::any_of(module.functions.begin(), module.functions.end(), [&](const auto& function) {
    return std::any_of(function.body.begin(), function.body.end(), loads);
  });
}

void NoteIntegers(const Op& op, const Side& side, ShadowCode& code) {
  const AccessShape shape = AccessShape::Unpack(op.aux);
  if (shape.store || shape.element_bytes != 4 || side.from != Format::kInteger) return;
  const bool generic = shape.space == MemorySpace::kGeneric;
  code.shared_integers |= generic || shape.space == MemorySpace::kShared;
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
  shadows->global_integers = code.module == nullptr || LoadsIntegers(*code.module);
  const Classifier classifier(code);
  shadows->variant = MakeVariant(code, [&](size_t index, const Op& op) -> Thunks {
    Side& side = shadows->sides[index];
    side.full = op.full;
    side.masked = op.masked;
    bool is_access = false, is_atomic = false;
    classifier.Classify(op, side, &is_access, &is_atomic);
    if (is_access) {
      NoteIntegers(op, side, *shadows);
      return AccessShape::Unpack(op.aux).store ? StoreThunks() : LoadThunks();
    }
    if (const Thunks own = classifier.OwnThunks(op); own.full != nullptr) return own;
    if (is_atomic) return AtomicThunks();
    if (side.step == nullptr) return {};
    if (side.step == &UnknownStep) {
      std::string mnemonic = code.mnemonics[code.sources[op.source].instr];
      std::vector<std::string>& unknown = shadows->unknown;
      if (std::find(unknown.begin(), unknown.end(), mnemonic) == unknown.end()) {
        unknown.push_back(std::move(mnemonic));
      }
      side.dst = SlotKind::kNone;
    }
    if (classifier.IsLanewise(op)) return {&LanewiseThunk<false>, &LanewiseThunk<true>};
    return {&InPlaceThunk<false>, &InPlaceThunk<true>};
  });
  return shadows;
}

}  // namespace cupel::emu
