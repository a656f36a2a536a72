// A key that cannot be printed by accident and is wiped when it is no longer needed.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>

#include <memory>
#include <ostream>
#include <string>
#include <string_view>

#include "base/result.h"

namespace cupel::llm {

/// Move-only. The bytes are in one place and overwritten on destruction.
class Secret {
 public:
  Secret() = default;
  /// Copies; wiping the source is the caller's business.
  explicit Secret(std::string_view bytes);
  Secret(Secret&& other) noexcept;
  Secret& operator=(Secret&& other) noexcept;
  ~Secret();

  bool empty() const { return size_ == 0; }
  /// For the header of a request, and nothing else.
  std::string_view Reveal() const { return {bytes_.get(), size_}; }
  /// `text` with every occurrence of the secret replaced by "[key]".
  std::string Redact(std::string text) const;

 private:
  void Wipe();
  std::unique_ptr<char[]> bytes_;
  size_t size_ = 0;
};

std::ostream& operator<<(std::ostream&, const Secret&) = delete;

/// Overwrites all of the string's bytes; the compiler may not drop it.
void WipeString(std::string& text);

}  // namespace cupel::llm

// Formatting a Secret does not compile.
template <>
struct fmt::formatter<cupel::llm::Secret> {
  formatter() = delete;
};
