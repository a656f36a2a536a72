// SPDX-License-Identifier: Apache-2.0
#include "emu/shadow/sites.h"

#include <algorithm>

#include "emu/core/code.h"
#include "emu/core/source_line.h"
#include "emu/shadow/shadow.h"

namespace cupel::emu {

uint32_t ShadowSites::Bit(const ShadowSite& site) {
  const std::lock_guard lock(mutex_);
  size_t at = 0;
  for (; at < sites_.size(); ++at) {
    ShadowSite& known = sites_[at];
    if (known.kernel != site.kernel || known.file != site.file || known.line != site.line) continue;
    // Warps arrive here in any order, and the text must not depend on it.
    if (site.op < known.op) known = site;
    break;
  }
  if (at == sites_.size() && at < kMost) {
    sites_.push_back(at + 1 < kMost ? site : ShadowSite{});
  }
  return 1u << (kShift + static_cast<int>(std::min(at, kMost - 1)));
}

std::vector<ShadowSite> ShadowSites::All() const {
  const std::lock_guard lock(mutex_);
  return sites_;
}

uint32_t SiteOf(const WarpShadow& ws) {
  const Code& code = *ws.code->variant;
  const auto index = static_cast<size_t>(ws.op - code.ops.data());
  uint32_t* known = &ws.code->sites[index];
  if (const uint32_t bit = __atomic_load_n(known, __ATOMIC_RELAXED); bit != 0) return bit;
  const Source& source = code.sources[ws.op->source];
  const SourceLine line = LineOf(*code.module, source.location);
  ShadowSite site;
  site.kernel = ws.code->kernel;
  site.file = line.file;
  site.line = line.line;
  site.mnemonic = code.statements[source.statement].mnemonic;
  site.op = static_cast<uint32_t>(index);
  const uint32_t bit = ws.memory->sites().Bit(site);
  __atomic_store_n(known, bit, __ATOMIC_RELAXED);
  return bit;
}

}  // namespace cupel::emu
