// SPDX-License-Identifier: Apache-2.0
#include "llm/secret.h"

#include <cstring>
#include <utility>

namespace cupel::llm {

Secret::Secret(std::string_view bytes)
    : bytes_(std::make_unique<char[]>(bytes.size())), size_(bytes.size()) {
  if (size_ > 0) std::memcpy(bytes_.get(), bytes.data(), size_);
}

Secret::Secret(Secret&& other) noexcept
    : bytes_(std::move(other.bytes_)), size_(std::exchange(other.size_, 0)) {}

Secret& Secret::operator=(Secret&& other) noexcept {
  if (this != &other) {
    Wipe();
    bytes_ = std::move(other.bytes_);
    size_ = std::exchange(other.size_, 0);
  }
  return *this;
}

Secret::~Secret() { Wipe(); }

void Secret::Wipe() {
  if (bytes_) explicit_bzero(bytes_.get(), size_);
}

std::string Secret::Redact(std::string text) const {
  if (empty()) return text;
  for (size_t at = text.find(Reveal()); at != std::string::npos; at = text.find(Reveal(), at)) {
    text.replace(at, size_, "[key]");
    at += 5;
  }
  return text;
}

void WipeString(std::string& text) {
  explicit_bzero(text.data(), text.size());
  text.clear();
}

}  // namespace cupel::llm
