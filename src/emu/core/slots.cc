// SPDX-License-Identifier: Apache-2.0
#include "emu/core/slots.h"

#include <cstring>

#include "emu/core/op.h"
#include "emu/core/spaces.h"
#include "emu/core/warp.h"

namespace cupel::emu {
namespace {

uint64_t Extended(uint64_t bits, const AccessShape& shape) {
  if (!shape.is_signed || shape.element_bytes == 8) return bits;
  const int shift = 64 - 8 * static_cast<int>(shape.element_bytes);
  return static_cast<uint64_t>(static_cast<int64_t>(bits << shift) >> shift);
}

}  // namespace

void LoadSlots(const Warp& warp, const Op* op, const AccessShape& shape, int lane,
               LaneValue* value) {
  for (uint32_t i = 0; i < shape.elements; ++i) {
    std::byte* to = value->bytes + i * shape.element_bytes;
    if (shape.element_bytes == 8) {
      std::memcpy(to, At<uint64_t>(warp, SlotOf(op, i)) + lane, 8);
    } else {
      std::memcpy(to, At<uint32_t>(warp, SlotOf(op, i)) + lane, shape.element_bytes);
    }
  }
}
void StoreSlots(const Warp& warp, const Op* op, const AccessShape& shape, int lane,
                const LaneValue& value) {
  for (uint32_t i = 0; i < shape.elements; ++i) {
    uint64_t bits = 0;
    std::memcpy(&bits, value.bytes + i * shape.element_bytes, shape.element_bytes);
    bits = Extended(bits, shape);
    if (shape.element_bytes == 8) {
      At<uint64_t>(warp, SlotOf(op, i))[lane] = bits;
    } else {
      At<uint32_t>(warp, SlotOf(op, i))[lane] = static_cast<uint32_t>(bits);
    }
  }
}

void StoredValue(const Warp& warp, const Op* op, int lane, std::byte* bytes) {
  const AccessShape shape = AccessShape::Unpack(op->aux);
  LaneValue value{};
  LoadSlots(warp, op, shape, lane, &value);
  std::memcpy(bytes, value.bytes, shape.bytes());
}

}  // namespace cupel::emu
