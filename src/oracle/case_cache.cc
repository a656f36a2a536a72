// SPDX-License-Identifier: Apache-2.0
#include "oracle/case_cache.h"

#include <algorithm>
#include <utility>

namespace cupel::oracle {

uint64_t CaseCache::DefaultLimit() {
  constexpr uint64_t kMost = uint64_t{16} << 30;
  return std::min(kMost, os::MemoryNow().total / 4);
}

CaseCache::~CaseCache() { Clear(); }

void CaseCache::Clear() {
  while (!entries_.empty()) Drop(0);
}

void CaseCache::Drop(size_t index) {
  std::error_code ignored;
  std::filesystem::remove(entries_[index].file, ignored);  // mappings keep the bytes
  bytes_ -= entries_[index].bytes;
  entries_.erase(entries_.begin() + static_cast<std::ptrdiff_t>(index));
}

void CaseCache::Keep(const std::string& key, const std::filesystem::path& file, uint64_t bytes,
                     const std::string& digest, const std::string& tag) {
  entries_.push_back({key, tag, digest, file, bytes, 1, ++opened_});
  bytes_ += bytes;
  while (!entries_.empty() && IsTooMuch()) Drop(LeastRecentlyUsed());
}

size_t CaseCache::LeastRecentlyUsed() const {
  const auto least =
      std::min_element(entries_.begin(), entries_.end(),
                       [](const Entry& a, const Entry& b) { return a.last_use < b.last_use; });
  return static_cast<size_t>(least - entries_.begin());
}

bool CaseCache::IsTooMuch() const {
  if (bytes_ > limit_) return true;
  const os::Memory memory = memory_();
  return memory.available < memory.total / 2;
}

std::optional<PooledCase> CaseCache::Open(Entry& entry) {
  auto mapping = os::MappedFile::Open(entry.file);
  if (!mapping || mapping->bytes().size() != entry.bytes) return std::nullopt;
  ++entry.uses;
  entry.last_use = ++opened_;
  return PooledCase{std::move(*mapping), entry.digest};
}

std::vector<PooledCase> CaseCache::Take(const std::string& key, int count) {
  std::stable_sort(entries_.begin(), entries_.end(),
                   [](const Entry& a, const Entry& b) { return a.uses < b.uses; });
  std::vector<PooledCase> taken;
  for (size_t i = 0; i < entries_.size();) {
    Entry& entry = entries_[i];
    if (entry.key != key || !entry.tag.empty() || static_cast<int>(taken.size()) >= count) {
      ++i;
      continue;
    }
    auto opened = Open(entry);
    const bool is_used_up = !opened || entry.uses >= kMaxUses;
    if (opened) taken.push_back(std::move(*opened));
    if (is_used_up) {
      Drop(i);
    } else {
      ++i;
    }
  }
  return taken;
}

std::optional<PooledCase> CaseCache::TakeSeeded(const std::string& key, const std::string& tag) {
  for (size_t i = 0; i < entries_.size(); ++i) {
    if (entries_[i].key != key || entries_[i].tag != tag) continue;
    auto opened = Open(entries_[i]);
    if (!opened) Drop(i);
    return opened;
  }
  return std::nullopt;
}

}  // namespace cupel::oracle
