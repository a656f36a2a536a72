// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <memory>
#include <span>

#include "base/result.h"
#include "build/x86.h"
#include "harness.h"

namespace cupel::fuzz {
namespace {

constexpr size_t kLongest = 15;  // bytes of an instruction
constexpr size_t kMostOffsets = 16;

/// `code`, then nops, then a system call. A copy of exactly this size, so that AddressSanitizer
/// detects a read one byte past the end.
std::unique_ptr<std::byte[]> BeforeSystemCall(std::span<const std::byte> code, size_t nops) {
  auto copy = std::make_unique<std::byte[]>(code.size() + nops + 2);
  std::copy(code.begin(), code.end(), copy.get());
  std::fill_n(copy.get() + code.size(), nops, std::byte{0x90});
  copy[code.size() + nops] = std::byte{0x0f};
  copy[code.size() + nops + 1] = std::byte{0x05};
  return copy;
}

}  // namespace

void RunOne(std::string_view input) {
  const auto code = std::as_bytes(std::span(input.data(), input.size()));
  const auto copy = BeforeSystemCall(code, kLongest - 1);
  const size_t call = code.size() + kLongest - 1;
  const std::span<const std::byte> followed(copy.get(), call + 2);

  // No bytes can hide a system call that stands after them: their last instruction ends in the
  // nops.
  const build::SystemCalls found = build::FindSystemCalls(followed);
  CHECK(found.offsets.size() <= kMostOffsets);
  CHECK(std::is_sorted(found.offsets.begin(), found.offsets.end()));
  CHECK(found.offsets.size() == kMostOffsets ||
        (!found.offsets.empty() && found.offsets.back() == call));
  CHECK(found.undecoded <= code.size());

  // A walk from the second instruction finds the rest.
  const size_t first = build::InstructionLength(followed);
  CHECK(first <= kLongest);
  const build::SystemCalls rest =
      build::FindSystemCalls(followed.subspan(std::max<size_t>(first, 1)));
  CHECK(found.undecoded == rest.undecoded + (first == 0 ? 1 : 0));
  CHECK(std::includes(found.impure.begin(), found.impure.end(), rest.impure.begin(),
                      rest.impure.end()));

  // The last instruction may be cut off.
  const auto exact = std::make_unique<std::byte[]>(code.size());
  std::copy(code.begin(), code.end(), exact.get());
  CHECK(build::FindSystemCalls({exact.get(), code.size()}).undecoded <= code.size());
}

}  // namespace cupel::fuzz
