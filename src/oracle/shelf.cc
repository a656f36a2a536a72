// SPDX-License-Identifier: Apache-2.0
#include "oracle/shelf.h"

#include <algorithm>
#include <utility>

namespace cupel::oracle {

uint64_t Shelf::DefaultLimit() {
  constexpr uint64_t kMost = uint64_t{16} << 30;
  return std::min(kMost, os::MemoryNow().total / 4);
}

Shelf::~Shelf() { Clear(); }

void Shelf::Clear() {
  while (!books_.empty()) Drop(0);
}

void Shelf::Drop(size_t index) {
  std::error_code ignored;
  std::filesystem::remove(books_[index].file, ignored);  // mappings keep the bytes
  bytes_ -= books_[index].bytes;
  books_.erase(books_.begin() + static_cast<std::ptrdiff_t>(index));
}

void Shelf::Keep(const std::string& key, const std::filesystem::path& file, uint64_t bytes,
                 const std::string& digest, const std::string& tag) {
  books_.push_back({key, tag, digest, file, bytes, 1});
  bytes_ += bytes;
  while (!books_.empty() && IsTooMuch()) Drop(0);
}

bool Shelf::IsTooMuch() const {
  if (bytes_ > limit_) return true;
  const os::Memory memory = memory_();
  return memory.available < memory.total / 2;
}

std::optional<PooledCase> Shelf::Open(Book& book) {
  auto mapping = os::MappedFile::Open(book.file);
  if (!mapping || mapping->bytes().size() != book.bytes) return std::nullopt;
  ++book.uses;
  return PooledCase{std::move(*mapping), book.digest};
}

std::vector<PooledCase> Shelf::Take(const std::string& key, int count) {
  std::stable_sort(books_.begin(), books_.end(),
                   [](const Book& a, const Book& b) { return a.uses < b.uses; });
  std::vector<PooledCase> taken;
  for (size_t i = 0; i < books_.size();) {
    Book& book = books_[i];
    if (book.key != key || !book.tag.empty() || static_cast<int>(taken.size()) >= count) {
      ++i;
      continue;
    }
    auto opened = Open(book);
    const bool is_worn = !opened || book.uses >= kMaxUses;
    if (opened) taken.push_back(std::move(*opened));
    if (is_worn) {
      Drop(i);
    } else {
      ++i;
    }
  }
  return taken;
}

std::optional<PooledCase> Shelf::TakeSeeded(const std::string& key, const std::string& tag) {
  for (size_t i = 0; i < books_.size(); ++i) {
    if (books_[i].key != key || books_[i].tag != tag) continue;
    auto opened = Open(books_[i]);
    if (!opened) {
      Drop(i);
      return std::nullopt;
    }
    std::rotate(books_.begin() + static_cast<std::ptrdiff_t>(i),
                books_.begin() + static_cast<std::ptrdiff_t>(i) + 1, books_.end());
    return opened;
  }
  return std::nullopt;
}

}  // namespace cupel::oracle
