// Tested by tests/e2e/test_prove.py.
// SPDX-License-Identifier: Apache-2.0
#include "emu/sync/muted_barrier.h"

#include <algorithm>

#include "emu/core/source_line.h"
#include "emu/core/worker.h"

namespace cupel::emu {
namespace {

/// Empty without a line.
std::string PlaceOf(const Code& code, const Op& op) {
  if (op.source >= code.sources.size()) return "";
  const SourceLine line = LineOf(*code.module, code.sources[op.source].location);
  return PlaceText(line.file, line.line);
}

bool IsBarrier(const std::string& mnemonic) {
  return mnemonic.starts_with("bar.sync") || mnemonic.starts_with("barrier.sync");
}

}  // namespace

std::vector<std::string> BarrierPlaces(const Code& code) {
  std::vector<std::string> places;
  for (const Op& op : code.ops) {
    if (op.source >= code.sources.size()) continue;
    if (!IsBarrier(code.statements[code.sources[op.source].statement].mnemonic)) continue;
    const std::string place = PlaceOf(code, op);
    if (!place.empty() && std::ranges::find(places, place) == places.end()) {
      places.push_back(place);
    }
  }
  return places;
}

bool MutedBarrier::Is(const Warp& warp, const Op* op) const {
  const std::lock_guard lock(mutex_);
  const auto [known, is_new] = known_.emplace(op, false);
  if (is_new) known->second = PlaceOf(*warp.worker->launch->code, *op) == place_;
  if (known->second) met_ = true;
  return known->second;
}

}  // namespace cupel::emu
