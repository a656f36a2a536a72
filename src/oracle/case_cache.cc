// SPDX-License-Identifier: Apache-2.0
#include "oracle/case_cache.h"

#include <algorithm>
#include <system_error>
#include <utility>

namespace cupel::oracle {

uint64_t CaseCache::DefaultLimit() {
  constexpr uint64_t kMost = uint64_t{16} << 30;
  return std::min(kMost, os::MemoryNow().total / 4);
}

CaseCache::~CaseCache() { Clear(); }

void CaseCache::Clear() {
  for (const auto& [key, cases] : kept_) {
    for (const KeptCase& one : cases) Remove(one);
  }
  kept_.clear();
}

void CaseCache::Remove(const KeptCase& one) {
  std::error_code ignored;
  std::filesystem::remove(one.file, ignored);
  bytes_ -= one.bytes;
}

void CaseCache::Keep(const std::string& key, const std::filesystem::path& file, uint64_t bytes,
                     const std::string& digest, const std::string& seed) {
  kept_[key].push_back({file, digest, seed, 1, "", bytes, ++opened_});
  bytes_ += bytes;
  while (bytes_ > 0 && IsTooMuch()) DropLeastRecentlyUsed();
}

void CaseCache::DropLeastRecentlyUsed() {
  std::vector<KeptCase>* of = nullptr;
  size_t least = 0;
  for (auto& [key, cases] : kept_) {
    for (size_t i = 0; i < cases.size(); ++i) {
      if (of != nullptr && cases[i].last_use > (*of)[least].last_use) continue;
      of = &cases;
      least = i;
    }
  }
  Remove((*of)[least]);
  of->erase(of->begin() + static_cast<std::ptrdiff_t>(least));
}

bool CaseCache::IsTooMuch() const {
  if (bytes_ > limit_) return true;
  const os::Memory memory = memory_();
  return memory.available < memory.total / 2;
}

CaseFiles CaseCache::Files() {
  return {[this](KeptCase& one) -> std::optional<os::MappedFile> {
            auto mapping = os::MappedFile::Open(one.file);
            if (!mapping || mapping->bytes().size() != one.bytes) return std::nullopt;
            one.last_use = ++opened_;
            return std::move(*mapping);
          },
          [this](const KeptCase& one) { Remove(one); }};
}

std::vector<PooledCase> CaseCache::Take(const std::string& key, int count) {
  return TakeCases(kept_[key], count, Files());
}

std::optional<PooledCase> CaseCache::TakeSeeded(const std::string& key, const std::string& seed) {
  return TakeSeededCase(kept_[key], seed, Files());
}

}  // namespace cupel::oracle
