// Tested by pool_test.cc and case_cache_test.cc.
// SPDX-License-Identifier: Apache-2.0
#include "oracle/case_list.h"

#include <algorithm>
#include <utility>

#include "base/hash.h"
#include "base/random.h"

namespace cupel::oracle {

std::vector<PooledCase> TakeCases(std::vector<KeptCase>& cases, int count, const CaseFiles& files) {
  std::vector<PooledCase> taken;
  if (count <= 0) return taken;
  Random random(EntropySeed());
  for (size_t i = cases.size(); i > 1; --i) std::swap(cases[i - 1], cases[random.Below(i)]);
  std::vector<KeptCase> left;
  for (KeptCase& one : cases) {
    if (one.seed.empty() && taken.size() < static_cast<size_t>(count)) {
      auto mapping = one.uses < kMaxUses ? files.open(one) : std::nullopt;
      const bool is_last = !mapping || ++one.uses >= kMaxUses;
      if (mapping) taken.push_back({std::move(*mapping), one.digest});
      if (is_last) files.remove(one);
      if (is_last) continue;
    }
    left.push_back(std::move(one));
  }
  cases = std::move(left);
  return taken;
}

std::optional<PooledCase> TakeSeededCase(std::vector<KeptCase>& cases, const std::string& seed,
                                         const CaseFiles& files) {
  const auto found = std::find_if(cases.begin(), cases.end(),
                                  [&](const KeptCase& one) { return one.seed == seed; });
  if (found == cases.end()) return std::nullopt;
  if (auto mapping = files.open(*found)) return PooledCase{std::move(*mapping), found->digest};
  files.remove(*found);
  cases.erase(found);
  return std::nullopt;
}

}  // namespace cupel::oracle
