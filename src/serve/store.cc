// SPDX-License-Identifier: Apache-2.0
#include "serve/store.h"

#include <fmt/format.h>

#include "base/hash.h"
#include "os/fd.h"

namespace cupel::serve {
namespace {

Status FetchInto(int file, const std::string& sha256, int64_t bytes,
                 const CaseStore::FetchPart& fetch) {
  Sha256 hash;
  for (int64_t offset = 0; offset < bytes;) {
    TRY_ASSIGN(const std::string part, fetch(offset));
    if (part.empty() || static_cast<int64_t>(part.size()) > bytes - offset) {
      return Fail(ErrorCode::kIo,
                  "the coordinator sent fewer or more bytes of a case than announced");
    }
    hash.Update(part);
    TRY(os::WriteAll(file, part));
    offset += static_cast<int64_t>(part.size());
  }
  if (hash.Hex() == sha256) return {};
  return Fail(ErrorCode::kIo, "a case arrived damaged: its hash differs from the one announced");
}

}  // namespace

Result<os::MappedFile> CaseStore::Get(const std::string& sha256, int64_t bytes,
                                      const FetchPart& fetch) {
  TRY_ASSIGN(const os::Fd lock, files_.Lock(sha256 + ".lock"));
  if (auto known = Open(sha256, bytes)) return known;
  TRY(files_.Write(sha256, [&](int file) { return FetchInto(file, sha256, bytes, fetch); }));
  auto file = Open(sha256, bytes);
  files_.TrimAfter(static_cast<uint64_t>(bytes));
  return file;
}

Result<os::MappedFile> CaseStore::Open(const std::string& sha256, int64_t bytes) const {
  TRY_ASSIGN(os::MappedFile file, files_.Open(sha256));
  if (file.bytes().size() == static_cast<size_t>(bytes) && Sha256Hex(file.text()) == sha256) {
    return file;
  }
  return Fail(ErrorCode::kIo, fmt::format("{} is damaged", files_.PathOf(sha256).string()));
}

}  // namespace cupel::serve
