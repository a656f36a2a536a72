// Tensor copies (cp.async.bulk.tensor), one element at a time. PTX states what moves; that rows of
// swizzled boxes have the pitch of the swizzle, the bits of the NaN that fills, the rounding to
// TF32 (ties to even), where stores end and what interleaved maps mean were measured on an H200.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>
#include <iterator>
#include <span>

#include "machine_state.h"
#include "plan/tensor_map.h"

namespace cupel::reference {

using plan::TensorMap;
using plan::TensorMapType;
using ptx::Instr;
using ptx::Modifier;
using ptx::Operand;
using ptx::Type;

using Coordinates = std::array<int64_t, plan::kMaxTensorMapRank>;

/// The elements of a copy: `rows` holds the coordinates of each row's first element.
struct Machine::Box {
  TensorMap map;
  uint64_t address = 0;
  std::vector<Coordinates> rows;
  uint32_t columns = 0;
  uint64_t element = 0;  // bytes

  /// Where an element is in shared memory, for a box that begins at `start`.
  uint64_t Shared(uint64_t start, size_t row, uint32_t column) const {
    const uint64_t span = map.swizzle == plan::Swizzle::k128B  ? 128
                          : map.swizzle == plan::Swizzle::k64B ? 64
                          : map.swizzle == plan::Swizzle::k32B ? 32
                                                               : 0;
    const bool is_padded = span != 0 && map.interleave == plan::Interleave::kNone;
    const uint64_t pitch = is_padded ? span : columns * element;
    const uint64_t at = start + row * pitch + column * element;
    return span == 0 ? at : at ^ ((at >> 7) & (span / 16 - 1)) << 4;
  }
  /// Where it is in global memory; nothing outside of the tensor. Stores write whole 16 bytes.
  std::optional<uint64_t> Global(size_t row, uint32_t column, bool is_store) const {
    Coordinates at = rows[row];
    at[0] += column;
    uint64_t to = address;
    for (size_t d = 0; d < static_cast<size_t>(map.rank); ++d) {
      auto size = static_cast<int64_t>(map.dims[d]);
      if (d == 0 && is_store) {
        const auto piece = static_cast<int64_t>(16 / element);
        size = (size + piece - 1) / piece * piece;
      }
      if (at[d] < 0 || at[d] >= size) return std::nullopt;
      to += static_cast<uint64_t>(at[d]) * (d == 0 ? element : map.strides[d - 1]);
    }
    return to;
  }
};

namespace {

/// Tile mode: dimension 1 changes first. A box of b elements with the stride s has b / s of them.
std::vector<Coordinates> TileRows(const TensorMap& map, const Coordinates& first) {
  std::vector<Coordinates> rows{first};
  for (size_t d = 1; d < static_cast<size_t>(map.rank); ++d) {
    std::vector<Coordinates> more;
    for (uint32_t i = 0; i < map.box[d]; i += map.element_strides[d]) {
      for (Coordinates row : rows) {
        row[d] += i;
        more.push_back(row);
      }
    }
    rows = std::move(more);
  }
  return rows;
}

/// im2col: pixels of the bounding box, W first, continued in the next image of the batch.
std::vector<Coordinates> PixelRows(const TensorMap& map, Coordinates pixel,
                                   const Coordinates& offsets) {
  std::vector<Coordinates> rows;
  const auto batch = static_cast<size_t>(map.rank - 1);
  while (rows.size() < map.pixels) {
    Coordinates row = pixel;
    for (size_t d = 1; d < batch; ++d) row[d] += offsets[d];
    rows.push_back(row);
    size_t d = 1;
    for (; d < batch; ++d) {
      pixel[d] += map.element_strides[d];
      if (pixel[d] <= static_cast<int64_t>(map.dims[d]) - 1 + map.upper[d - 1]) break;
      pixel[d] = map.lower[d - 1];
    }
    if (d == batch) pixel[d] += map.element_strides[d];
  }
  return rows;
}

Type ReductionTypeOf(TensorMapType type) {
  switch (type) {
    case TensorMapType::kU32:
      return Type::kU32;
    case TensorMapType::kS32:
      return Type::kS32;
    case TensorMapType::kU64:
      return Type::kU64;
    case TensorMapType::kS64:
      return Type::kS64;
    case TensorMapType::kF16:
      return Type::kF16;
    case TensorMapType::kBF16:
      return Type::kBF16;
    case TensorMapType::kF32:
      return Type::kF32;
    case TensorMapType::kF64:
      return Type::kF64;
    default:
      return Type::kNone;
  }
}

/// What a load writes for the bits of an element.
uint64_t Loaded(TensorMapType type, uint64_t bits) {
  const bool tf32 = type == TensorMapType::kTF32 || type == TensorMapType::kTF32Ftz;
  if (!tf32) return bits;
  return Pack(Unpack(bits, kF32), kTF32, Rounding::kNearestEven) << 13;
}

}  // namespace

/// Each element goes to `to`, which may be in another block.
bool Machine::LoadBox(Block& block, Thread& thread, const Box& box, uint64_t to) {
  for (size_t row = 0; row < box.rows.size(); ++row) {
    for (uint32_t column = 0; column < box.columns; ++column) {
      uint64_t bits = box.map.fill == plan::OobFill::kNan ? 0x7ff77ff77ff77ff7u : 0;
      if (const auto from = box.Global(row, column, false)) {
        const std::byte* source =
            Bytes(block, thread, {Space::kGlobal, *from}, box.element, box.element);
        if (source == nullptr) return false;
        bits = 0;
        std::memcpy(&bits, source, box.element);
        bits = Loaded(box.map.type, bits);
      }
      const Place place{Space::kShared, box.Shared(to, row, column)};
      std::byte* target = Bytes(block, thread, place, box.element, box.element);
      if (target == nullptr) return false;
      std::memcpy(target, &bits, box.element);
    }
  }
  return true;
}

bool Machine::StoreBox(Block& block, Thread& thread, const Instr& instr, const Box& box,
                       uint64_t from) {
  const Type type = ReductionTypeOf(box.map.type);
  if (instr.Has(Modifier::kReduce) && type == Type::kNone) {
    return Fail(&thread, "unknown type of a reduction");
  }
  for (size_t row = 0; row < box.rows.size(); ++row) {
    for (uint32_t column = 0; column < box.columns; ++column) {
      const auto to = box.Global(row, column, true);
      if (!to) continue;
      const Place place{Space::kShared, box.Shared(from, row, column)};
      const std::byte* source = Bytes(block, thread, place, box.element, box.element);
      if (source == nullptr ||
          !Transfer(block, thread, instr, type, {Space::kGlobal, *to}, source, box.element)) {
        return false;
      }
    }
  }
  return true;
}

/// Loads: [to], [map, {coordinates}], [barrier][, {offsets}][, mask]. Stores and reductions:
/// [map, {coordinates}], [from].
bool Machine::ExecuteTensorCopy(Block& block, Thread& thread, const Instr& instr) {
  const bool is_store = instr.Has(Modifier::kBulkGroup);
  const Operand& tensor = instr.operands[is_store ? 0 : 1];
  const uint64_t shared = SharedAddress(block, thread, instr.operands[is_store ? 1 : 0]);
  const auto where = Address(block, thread, ptx::Instr{}, tensor);
  if (!where) return false;
  const std::byte* bytes = Bytes(block, thread, *where, plan::kTensorMapBytes, 64);
  if (bytes == nullptr) return false;
  const auto decoded = plan::DecodeTensorMap({bytes, plan::kTensorMapBytes});
  if (!decoded || tensor.elements.size() != 1) return Fail(&thread, "not a tensor map");
  const TensorMap& map = decoded->map;
  const std::vector<Operand>& given = tensor.elements[0].elements;
  if (given.size() != static_cast<size_t>(map.rank)) return Fail(&thread, "the map's rank differs");
  const bool is_interleaved = map.interleave != plan::Interleave::kNone;
  if ((is_interleaved && map.im2col) || map.swizzle > plan::Swizzle::k128B ||
      plan::BitsOf(map.type) % 8 != 0 || shared % 128 != 0) {
    return Fail(&thread, "unknown form of a tensor copy");
  }
  Coordinates first{}, offsets{};
  for (size_t d = 0; d < given.size(); ++d) {
    first[d] = SignExtend(Read(block, thread, given[d], 32), 32);
    if (is_store && first[d] < 0) return Fail(&thread, "a store at a negative coordinate");
  }
  Box box;
  box.map = map;
  box.address = decoded->address;
  box.element = static_cast<uint64_t>(plan::BitsOf(map.type)) / 8;
  if (is_interleaved) {  // dimension 0 counts slices; here, their elements
    const uint64_t slice = (map.interleave == plan::Interleave::k16B ? 16 : 32) / box.element;
    first[0] *= static_cast<int64_t>(slice);
    box.map.dims[0] *= slice;
    box.map.box[0] *= static_cast<uint32_t>(slice);
    box.map.box[static_cast<size_t>(map.rank) - 2] = 1;
  }
  if (first[0] * static_cast<int64_t>(box.element) % 16 != 0) {
    return Fail(&thread, "a first coordinate that is not at a multiple of 16 bytes");
  }
  size_t next = 3;
  if (instr.Has(Modifier::kIm2col) && !is_store) {
    const std::vector<Operand>& list = instr.operands[next++].elements;
    for (size_t i = 0; i < list.size(); ++i) {
      offsets[i + 1] = static_cast<int64_t>(Read(block, thread, list[i], 16));
    }
  }
  box.rows = map.im2col ? PixelRows(map, first, offsets) : TileRows(box.map, first);
  box.columns = map.im2col ? map.channels : box.map.box[0];
  if (is_store) return StoreBox(block, thread, instr, box, shared);
  const uint64_t total = box.rows.size() * box.columns * box.element;
  const uint64_t barrier = SharedAddress(block, thread, instr.operands[2]);
  std::vector<uint64_t> targets{shared}, barriers{barrier};
  if (instr.Has(Modifier::kMulticastCluster)) {
    const uint64_t mask = Read(block, thread, instr.operands[next], 16);
    targets = Targets(block, shared, mask);
    barriers = Targets(block, barrier, mask);
  }
  for (size_t i = 0; i < targets.size(); ++i) {
    if (!LoadBox(block, thread, box, targets[i]) ||
        !CompleteBytes(block, thread, barriers[i], total)) {
      return false;
    }
  }
  return true;
}

/// tensormap.replace of a field, and tensormap.cp_fenceproxy. Every thread of the warp does the
/// latter's copy: the last one finds all that the others have replaced.
bool Machine::ExecuteTensorMap(Block& block, Thread& thread, const Instr& instr) {
  const auto bytes = [&](const Operand& operand, Modifier space) -> std::byte* {
    Instr access;
    if (space != Modifier::kUnknown) access.modifiers.Add(space);
    const auto place = Address(block, thread, access, operand);
    return place ? Bytes(block, thread, *place, plan::kTensorMapBytes, 64) : nullptr;
  };
  if (!instr.Has(Modifier::kReplace)) {
    std::byte* to = bytes(instr.operands[0], Modifier::kGlobal);
    const std::byte* from = bytes(instr.operands[1], Modifier::kShared);
    if (to == nullptr || from == nullptr) return false;
    std::memcpy(to, from, plan::kTensorMapBytes);
    return true;
  }
  std::byte* at = bytes(instr.operands[0], instr.Has(Modifier::kGlobal)      ? Modifier::kGlobal
                                           : instr.Has(Modifier::kSharedCta) ? Modifier::kShared
                                                                             : Modifier::kUnknown);
  if (at == nullptr) return false;
  auto [map, address] = plan::FieldsOfTensorMap(
      std::span<const std::byte, plan::kTensorMapBytes>(at, plan::kTensorMapBytes));
  const size_t ordinal = instr.operands.size() == 3 ? instr.operands[1].bits : 0;
  const uint64_t value = Read(block, thread, instr.operands.back(), 64);
  constexpr int kTypes[] = {0, 1, 2, 3, 4, 5, 6, 7, 10, 8, 9, 11, 12};  // as the driver counts
  if (instr.Has(Modifier::kGlobalAddress)) {
    address = value;
  } else if (instr.Has(Modifier::kRank)) {
    map.rank = static_cast<int>(value) + 1;
  } else if (instr.Has(Modifier::kBoxDim)) {
    map.box.at(ordinal) = static_cast<uint32_t>(value);
  } else if (instr.Has(Modifier::kGlobalDim)) {
    map.dims.at(ordinal) = value;
  } else if (instr.Has(Modifier::kGlobalStride)) {
    map.strides.at(ordinal) = value;
  } else if (instr.Has(Modifier::kElementStride)) {
    map.element_strides.at(ordinal) = static_cast<uint32_t>(value);
  } else if (instr.Has(Modifier::kElemtype) && value < std::size(kTypes)) {
    map.type = static_cast<TensorMapType>(kTypes[value]);
  } else if (instr.Has(Modifier::kInterleaveLayout)) {
    map.interleave = static_cast<plan::Interleave>(value);
  } else if (instr.Has(Modifier::kSwizzleMode)) {
    map.swizzle = static_cast<plan::Swizzle>(value);
  } else if (instr.Has(Modifier::kFillMode)) {
    map.fill = static_cast<plan::OobFill>(value);
  } else {
    return Fail(&thread, "unknown field of a tensor map");
  }
  const auto encoded = plan::EncodeTensorMap(map, address);
  std::memcpy(at, encoded.data(), encoded.size());
  return true;
}

}  // namespace cupel::reference
