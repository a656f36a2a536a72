// SPDX-License-Identifier: Apache-2.0
#include "base/hash.h"

#include <sodium.h>

#include <new>

#include "base/result.h"

namespace cupel {
namespace {

static_assert(sizeof(crypto_hash_sha256_state) <= 128);

crypto_hash_sha256_state* State(unsigned char* storage) {
  return std::launder(reinterpret_cast<crypto_hash_sha256_state*>(storage));
}

const unsigned char* Bytes(std::string_view text) {
  return reinterpret_cast<const unsigned char*>(text.data());
}

}  // namespace

Sha256::Sha256() {
  new (state_) crypto_hash_sha256_state;
  crypto_hash_sha256_init(State(state_));
}

void Sha256::Update(std::string_view bytes) {
  crypto_hash_sha256_update(State(state_), Bytes(bytes), bytes.size());
}

void Sha256::Field(std::string_view bytes) {
  const uint64_t size = bytes.size();
  Update({reinterpret_cast<const char*>(&size), sizeof size});
  Update(bytes);
}

std::string Sha256::Hex() {
  unsigned char digest[crypto_hash_sha256_BYTES];
  crypto_hash_sha256_final(State(state_), digest);
  std::string hex(2 * sizeof digest + 1, '\0');
  sodium_bin2hex(hex.data(), hex.size(), digest, sizeof digest);
  hex.pop_back();
  return hex;
}

bool IsSha256Hex(std::string_view text) {
  return text.size() == 64 && text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

std::string Sha256Hex(std::string_view bytes) {
  Sha256 hash;
  hash.Update(bytes);
  return hash.Hex();
}

uint64_t EntropySeed() {
  static const int ready = sodium_init();
  CHECK(ready >= 0);
  uint64_t seed = 0;
  randombytes_buf(&seed, sizeof seed);
  return seed;
}

}  // namespace cupel
