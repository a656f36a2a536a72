// SPDX-License-Identifier: Apache-2.0
#include "judge/both_engines.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace cupel::judge {
namespace {

using records::Decision;
using records::Reason;

constexpr const char* kEmulator = "the emulator";

/// The worse of two decisions: what is wrong counts more than what cannot be judged.
Decision Worse(Decision a, Decision b) {
  for (const Decision worst : {Decision::kError, Decision::kRejected, Decision::kUnsupported}) {
    if (a == worst || b == worst) return worst;
  }
  return Decision::kAccepted;
}

/// The emulator's reason in a verdict of both. Its place names settings and trials of the
/// emulator's verdict, so it stays as text only.
Reason OfEmulator(const Reason& reason, bool gpu_accepts) {
  Reason ours = reason;
  ours.at = {};
  ours.where = reason.where.empty() ? kEmulator : fmt::format("{} on {}", reason.where, kEmulator);
  if (gpu_accepts && reason.code == "unsupported_instruction") {
    ours.message +=
        "; --engines gpu judges on the GPU alone, which detects no races and no "
        "accesses out of bounds";
  }
  return ours;
}

}  // namespace

records::Verdict Combine(records::Verdict gpu, records::Verdict emulator) {
  records::Verdict both = std::move(gpu);
  const bool gpu_accepts = both.accepted();
  both.decision = Worse(both.decision, emulator.decision);
  for (const Reason& reason : emulator.reasons) {
    const auto is_same = [&](const Reason& known) {
      return known.code == reason.code && known.where == reason.where;
    };
    if (std::ranges::any_of(both.reasons, is_same)) continue;
    both.reasons.push_back(OfEmulator(reason, gpu_accepts));
  }
  for (const std::string& note : emulator.notes) {
    if (std::ranges::find(both.notes, note) == both.notes.end()) both.notes.push_back(note);
  }
  if (both.declared.empty()) both.declared = emulator.declared;
  both.other_engines.push_back(std::move(emulator));
  return both;
}

bool IsOfEmulator(const records::Reason& reason) { return reason.where.ends_with(kEmulator); }

}  // namespace cupel::judge
