// SPDX-License-Identifier: Apache-2.0
#include <cstring>
#include <memory>

#include "build/audit.h"
#include "build/elf.h"
#include "harness.h"

namespace cupel::fuzz {

void RunOne(std::string_view input) {
  // A copy of exactly this size, so that AddressSanitizer detects a read one byte past the end.
  const auto bytes = std::make_unique<std::byte[]>(input.size());
  if (!input.empty()) std::memcpy(bytes.get(), input.data(), input.size());
  const std::span<const std::byte> file(bytes.get(), input.size());
  const auto object = build::ReadSharedObject(file);
  if (!object) {
    CHECK(!object.error().message.empty());
    return;
  }
  const build::Audit audit = build::AuditObject(*object);
  if (audit.objection) CHECK(!audit.objection->message.empty());
}

}  // namespace cupel::fuzz
