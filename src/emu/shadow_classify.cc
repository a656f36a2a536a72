// Chooses the shadow step of atomics, control flow, small floats and moves.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "emu/shadow_names.h"

namespace cupel::emu {

void ClassifyAtomic(const Words& words, Side& side) {
  const TypeName type = TypeOf(words.back());
  side.format = type.format;
  side.is_signed = type.is_signed;
  const bool adds = words[1] == "add" && type.format != Format::kInteger;
  side.detail = adds ? '+' : 'i';
  const bool keeps_zero = words[1] == "add" || words[1] == "or" || words[1] == "xor";
  if (keeps_zero && type.format == Format::kInteger) side.detail = 'o';
  if (words[1] == "exch") side.detail = 'x';
  if (words[1] == "cas") side.detail = 'c';
  if (words[1] == "min" && type.format == Format::kInteger) side.detail = '<';
  if (words[1] == "max" && type.format == Format::kInteger) side.detail = '>';
}

void ClassifyControl(std::string_view key, Side& side) {
  static const std::string_view silent[] = {"@jump",
                                            "@merge",
                                            "@fall",
                                            "@exit",
                                            "@mode",
                                            "@trap",
                                            "@assertfail",
                                            "@nothing",
                                            "@barrier",
                                            "@syncwarp",
                                            "@printf",
                                            "@cp.async.commit",
                                            "@cp.async.wait",
                                            "@fence",
                                            "@yield",
                                            "@define",
                                            "@checkdefined",
                                            "@cp.async.arrive",
                                            "@bulk.commit",
                                            "@bulk.wait",
                                            "@mbarrier.init",
                                            "@mbarrier.inval",
                                            "@mbarrier.arrive",
                                            "@mbarrier.expect",
                                            "@mbarrier.pending"};
  if (std::find(std::begin(silent), std::end(silent), key) != std::end(silent)) return;
  if (key == "@mbarrier.wait" || key == "@elect") {
    side.step = &WaitStep;
    side.detail = key == "@elect" ? 'e' : 'w';
    return;
  }
  const bool decides = key == "@branch" || key == "@exitif" || key == "@guard";
  side.step = decides || key == "@brx" ? &BranchStep : &UnknownStep;
  side.src[0] = decides ? SlotKind::kPredicate : SlotKind::kWord;
}

bool ClassifySmall(const Words& words, Side& side) {
  const std::string_view to = words[words.size() - 2], from = words.back();
  const auto is_small = [](std::string_view name) { return name == "e4m3x2" || name == "e5m2x2"; };
  const bool narrows = is_small(to) && (from == "f32" || from == "f16x2");
  if (!narrows && !(is_small(from) && to == "f16x2")) return false;
  side.detail = narrows ? 'n' : 'w';
  side.bytes = (narrows ? to : from) == "e4m3x2" ? 4 : 5;
  side.from = from == "f16x2" ? Format::kF16 : Format::kF32;
  side.relu = Has(words, "relu");
  side.step = &SmallFloatStep;
  return true;
}

bool ClassifyMove(const Words& words, Side& side) {
  const std::string_view name = words[0];
  const TypeName type = TypeOf(words.back());
  auto move = [&](char detail) {
    side.detail = detail;
    side.step = &MoveStep;
    return true;
  };
  auto granules = [&](char detail) {
    side.detail = detail;
    side.step = &GranuleStep;
    return true;
  };
  if (side.dst == SlotKind::kPredicate) return false;
  if (name == "mov") return move(side.dst == SlotKind::kDouble ? 'd' : 'm');
  if (name == "pack" && words.back() != "b8") {
    return move(words.back() == "b32" ? 'a' : (words[1] == "b32" ? 'b' : 'c'));
  }
  if (name.starts_with("part") && words.back() != "b8") {
    if (words.back() == "b32") return move(name == "part0" ? 'm' : 'y');
    return move(name[4]);
  }
  if (name == "cvt" && words.size() == 3) {
    const int bytes = std::min<int>(TypeOf(words[1]).bytes, type.bytes);
    if (bytes == 4) return move('m');
    if (bytes == 2) return move('0');
    if (bytes == 8) return move('d');
  }
  if (name == "prmt" && words.size() == 2) return granules('P');
  if (name == "shf") return granules('F');
  if (name == "shl" && type.bytes >= 4) return granules('L');
  if (name == "shr" && type.bytes >= 4) return granules('R');
  if (name == "bfe" && !type.is_signed) return granules('E');
  if (name == "bfi") return granules('I');
  if (words.size() == 2 && (name == "and" || name == "or" || name == "xor")) {
    side.detail = name == "and" ? '&' : (name == "or" ? '|' : '^');
    side.step = &LogicStep;
    return true;
  }
  if (name == "mul" && words.size() == 3 && words[1] == "lo" && type.bytes >= 4) {
    side.detail = '*';
    side.step = &ChoiceStep;
    return true;
  }
  const bool sums = name == "add" || name == "sub", orders = name == "min" || name == "max";
  if (words.size() == 2 && type.known && type.bytes >= 4 && (sums || orders)) {
    side.detail = sums ? (name == "add" ? '+' : '-') : (name == "min" ? '<' : '>');
    side.is_signed = type.is_signed;
    side.step = &ChoiceStep;
    return true;
  }
  return false;
}

}  // namespace cupel::emu
