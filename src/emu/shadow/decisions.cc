// Tested by field_test.cc.
// SPDX-License-Identifier: Apache-2.0
#include "emu/shadow/decisions.h"

#include <cmath>

#include "emu/core/code.h"
#include "emu/core/source_line.h"

namespace cupel::emu {
namespace {

enum Outcome : uint8_t { kLess = 1, kEqual = 2, kGreater = 4, kUnordered = 8 };

Outcome OutcomeOf(double a, double b) {
  if (std::isnan(a) || std::isnan(b)) return kUnordered;
  return a < b ? kLess : a > b ? kGreater : kEqual;
}

}  // namespace

void NoteDecisions(const WarpShadow& ws, uint32_t lanes, const double* a, const double* b) {
  uint8_t found = 0;
  for (; lanes != 0; lanes &= lanes - 1) {
    const int i = __builtin_ctz(lanes);
    found |= OutcomeOf(a[i], b[i]);
  }
  uint8_t* known = &ws.code->decisions[static_cast<size_t>(ws.op - ws.code->variant->ops.data())];
  if ((found & ~__atomic_load_n(known, __ATOMIC_RELAXED)) != 0) {
    __atomic_fetch_or(known, found, __ATOMIC_RELAXED);
  }
}

std::vector<engine::Decision> DecisionsOf(const ShadowCode& code) {
  std::vector<engine::Decision> decisions;
  const Code& variant = *code.variant;
  for (size_t i = 0; i < code.decisions.size(); ++i) {
    const uint8_t found = code.decisions[i];
    if (found == 0) continue;
    const Source& source = variant.sources[variant.ops[i].source];
    const SourceLine line = LineOf(*variant.module, source.location);
    engine::Decision& decision = decisions.emplace_back();
    decision.where = variant.statements[source.statement].mnemonic;
    const std::string place = PlaceText(line.file, line.line);
    decision.where += place.empty() ? " in " + code.kernel : " at " + place;
    decision.less = (found & kLess) != 0;
    decision.equal = (found & kEqual) != 0;
    decision.greater = (found & kGreater) != 0;
    decision.unordered = (found & kUnordered) != 0;
  }
  return decisions;
}

}  // namespace cupel::emu
