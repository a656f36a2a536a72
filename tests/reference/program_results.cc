// Operands for random programs, and the comparison of their results.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <cstring>

#include "base/random.h"
#include "generator.h"
#include "generator_ops.h"
#include "operation.h"

namespace cupel::reference {
namespace {

uint64_t LoadWord(const std::vector<std::byte>& bytes, size_t at) {
  uint64_t value = 0;
  std::memcpy(&value, bytes.data() + at, sizeof value);
  return value;
}

bool SlotsAgree(const Slot& slot, uint64_t a, uint64_t b) {
  if (a == b) return true;
  if (slot.format == nullptr) return false;
  const Format& format = *slot.format;
  for (int at = 0; at < slot.bits; at += format.bits) {
    const uint64_t x = Truncate(a >> at, format.bits), y = Truncate(b >> at, format.bits);
    if (x != y && !(IsNan(x, format) && IsNan(y, format))) return false;
  }
  return true;
}

}  // namespace

std::vector<std::byte> ProgramInputs(const Program& program) {
  Random random = Random(program.seed).Fork("inputs");
  std::vector<std::byte> bytes(program.grid * program.block * kProgramInput);
  for (size_t at = 0; at < bytes.size(); at += 8) {
    // Small numbers, floats around one (of several formats), and any bits.
    static const uint64_t patterns[] = {0x3f8000003f800000, 0x3c003c003c003c00, 0x4049000000000005,
                                        0x0000000000000000, 0x7f7fffff7f800000, 0x8000000080000001};
    uint64_t value = random();
    if (random.Below(3) == 0) value = patterns[random.Below(6)] ^ (value & 0x000300070001000f);
    std::memcpy(bytes.data() + at, &value, sizeof value);
  }
  return bytes;
}

std::string CompareResults(const Program& program, const std::vector<std::byte>& expected,
                           const std::vector<std::byte>& got) {
  for (size_t at = 0; at + 8 <= expected.size(); at += 8) {
    const uint64_t a = LoadWord(expected, at), b = LoadWord(got, at);
    const size_t slot = at % kProgramOutput / 8;
    if (slot < program.slots.size() ? SlotsAgree(program.slots[slot], a, b) : a == b) continue;
    std::string name = fmt::format("word {}", slot);
    size_t rest = slot;
    for (const RegisterClass& c : RegisterClasses()) {
      const auto count = static_cast<size_t>(c.count);
      if (rest < count) {
        name = fmt::format("%{}{}", c.letter, rest);
        break;
      }
      rest -= count;
    }
    return fmt::format("{} of thread {} is {:#x}, should be {:#x}", name, at / kProgramOutput, b,
                       a);
  }
  return {};
}

}  // namespace cupel::reference
