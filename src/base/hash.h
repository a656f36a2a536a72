// SHA-256 (libsodium) for content addresses and evidence, and the system's entropy.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace cupel {

/// Incremental SHA-256. Not thread-safe.
class Sha256 {
 public:
  Sha256();
  void Update(std::string_view bytes);
  /// Hashes the length before the bytes, so that different sequences of fields never hash the same
  /// bytes.
  void Field(std::string_view bytes);
  /// 64 lower-case hex digits; the object must not be used afterwards.
  std::string Hex();

 private:
  alignas(8) unsigned char state_[128];
};

std::string Sha256Hex(std::string_view bytes);
/// 64 lower-case hex digits.
bool IsSha256Hex(std::string_view text);

/// 64 bits of the operating system's entropy.
uint64_t EntropySeed();

}  // namespace cupel
