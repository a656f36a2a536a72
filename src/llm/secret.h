// A key that cannot be printed by accident, and that is wiped after use.
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
  /// Copies the bytes. The caller must wipe the source.
  explicit Secret(std::string_view bytes);
  Secret(Secret&& other) noexcept;
  Secret& operator=(Secret&& other) noexcept;
  ~Secret();

  bool empty() const { return size_ == 0; }
  /// Only for the header of a request.
  std::string_view Reveal() const { return {bytes_.get(), size_}; }
  /// `text` with every occurrence of the secret replaced by "[key]".
  std::string Redact(std::string text) const;

 private:
  void Wipe();
  std::unique_ptr<char[]> bytes_;
  size_t size_ = 0;
};

std::ostream& operator<<(std::ostream&, const Secret&) = delete;

/// Overwrites all bytes of the string. The compiler cannot remove this.
void WipeString(std::string& text);

}  // namespace cupel::llm

// Formatting a Secret does not compile.
template <>
struct fmt::formatter<cupel::llm::Secret> {
  formatter() = delete;
};
