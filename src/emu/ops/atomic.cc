// Atomics, lane by lane in lane order, and the op for loads and stores without a fast handler.
// Launches that use atomics on global memory run on one thread, so plain arithmetic is sufficient.
// SPDX-License-Identifier: Apache-2.0
#include <xmmintrin.h>

#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <string>

#include "emu/check/report.h"
#include "emu/core/code.h"
#include "emu/core/handler_table.h"
#include "emu/core/lane_addresses.h"
#include "emu/core/matrix.h"
#include "emu/core/op.h"
#include "emu/core/spaces.h"
#include "emu/core/warp.h"
#include "emu/cost/counters.h"
#include "emu/ops/access.h"
#include "emu/ops/handlers.h"

namespace cupel::emu {
namespace {

/// Additions of float32 flush subnormal numbers in global memory, but not in shared memory.
float Flushed(float a) {
  const auto bits = std::bit_cast<uint32_t>(a);
  return (bits & 0x7f800000u) == 0 ? std::bit_cast<float>(bits & 0x80000000u) : a;
}

/// Applies F to one element. T is the type in memory and slots.
template <class T, class F>
const Op* Atomic(Warp& warp, const Op* op) {
  const AccessShape shape = AccessShape::Unpack(op->aux);
  LaneAddresses lanes;
  for (uint32_t rest = warp.active; rest != 0; rest &= rest - 1) {
    const int lane = __builtin_ctz(rest);
    const uint64_t address = LaneAddress(warp, op, shape.space, lane, op->imm);
    if (!AddAddress(warp, op, shape.space, lane, address, sizeof(T), true, lanes)) return nullptr;
  }
  AccessKind kind = KindOf(shape);
  kind.plain = false;
  if (!ObserveAddresses(warp, op, kind, sizeof(T), lanes)) return nullptr;
  if (warp.counting) CountAtomic(warp, op, lanes);
  for (uint32_t rest = warp.active; rest != 0; rest &= rest - 1) {
    const int lane = __builtin_ctz(rest);
    std::byte* host = lanes.host[lane];
    if (host == nullptr) {
      return Fault(warp, op, "illegal_instruction", "An atomic operation on local memory.", lane);
    }
    using Cell = std::conditional_t<sizeof(T) == 8, uint64_t, uint32_t>;
    auto read = [&](int32_t slot) {
      T value;
      std::memcpy(&value, At<const Cell>(warp, slot) + lane, sizeof value);
      return value;
    };
    T old;
    std::memcpy(&old, host, sizeof old);
    T result = F{}(old, read(op->src[1]), op->src[2] < 0 ? T{} : read(op->src[2]));
    if constexpr (std::is_same_v<T, float>) {
      if (((lanes.global >> lane) & 1u) != 0) {
        result = Flushed(Flushed(old) + Flushed(read(op->src[1])));
      }
    }
    std::memcpy(host, &result, sizeof result);
    if (op->dst >= 0) {
      Cell cell = 0;
      std::memcpy(&cell, &old, sizeof old);
      At<Cell>(warp, op->dst)[lane] = cell;
    }
  }
  return op + 1;
}

/// atom.b128. src[0]: address; target: displacement; the list has the slots of what is compared,
/// stored and returned, two for each; -1: there is none.
const Op* WideAtomic(Warp& warp, const Op* op) {
  const AccessShape shape = AccessShape::Unpack(op->aux);
  constexpr uint32_t kBytes = 16;
  LaneAddresses lanes;
  for (uint32_t rest = warp.active; rest != 0; rest &= rest - 1) {
    const int lane = __builtin_ctz(rest);
    const uint64_t address = LaneAddress(warp, op, shape.space, lane, op->target);
    if (!AddAddress(warp, op, shape.space, lane, address, kBytes, true, lanes)) return nullptr;
  }
  AccessKind kind = KindOf(shape);
  kind.plain = false;
  if (!ObserveAddresses(warp, op, kind, kBytes, lanes)) return nullptr;
  if (warp.counting) CountAtomic(warp, op, lanes);
  using Wide = std::array<uint64_t, 2>;
  const int32_t* list = ListOf(warp, op);
  for (uint32_t rest = warp.active; rest != 0; rest &= rest - 1) {
    const int lane = __builtin_ctz(rest);
    std::byte* host = lanes.host[lane];
    if (host == nullptr) {
      return Fault(warp, op, "illegal_instruction", "An atomic operation on local memory.", lane);
    }
    const auto read = [&](const int32_t* slots) {
      return Wide{At<const uint64_t>(warp, slots[0])[lane],
                  At<const uint64_t>(warp, slots[1])[lane]};
    };
    Wide old;
    std::memcpy(old.data(), host, kBytes);
    if (list[0] < 0 || old == read(list)) std::memcpy(host, read(list + 2).data(), kBytes);
    for (size_t i = 0; i < 2 && list[4] >= 0; ++i) At<uint64_t>(warp, list[4 + i])[lane] = old[i];
  }
  return op + 1;
}

template <class T, class F>
void Add(HandlerTable& table, const std::string& key, F, FloatMode mode = FloatMode::kAny) {
  Entry entry;
  entry.full = entry.masked = &Atomic<T, F>;
  entry.mode = mode;
  table.Add(key, entry);
}

template <class U>
void AddBits(HandlerTable& table, const std::string& type) {
  Add<U>(table, "atom.and." + type, [](U a, U b, U) { return static_cast<U>(a & b); });
  Add<U>(table, "atom.or." + type, [](U a, U b, U) { return static_cast<U>(a | b); });
  Add<U>(table, "atom.xor." + type, [](U a, U b, U) { return static_cast<U>(a ^ b); });
  Add<U>(table, "atom.exch." + type, [](U, U b, U) { return b; });
  Add<U>(table, "atom.cas." + type, [](U a, U b, U c) { return a == b ? c : a; });
}
template <class T>
void AddOrder(HandlerTable& table, const std::string& type) {
  Add<T>(table, "atom.min." + type, [](T a, T b, T) { return a < b ? a : b; });
  Add<T>(table, "atom.max." + type, [](T a, T b, T) { return a > b ? a : b; });
}
template <class U>
void AddSum(HandlerTable& table, const std::string& type) {
  Add<U>(table, "atom.add." + type, [](U a, U b, U) { return static_cast<U>(a + b); });
}

// --- 16-bit floats, rarely used: scalar and simple
// -------------------------------------------------

float HalfValue(uint16_t h) {
  const uint32_t magnitude = h & 0x7fffu;
  float value = 0;
  if (magnitude >= 0x7c00u) {
    value = std::bit_cast<float>((magnitude << 13) | 0x7f800000u);
  } else if (magnitude >= 0x400u) {
    value = std::bit_cast<float>((magnitude << 13) + (112u << 23));
  } else {
    value = static_cast<float>(magnitude) * 5.9604645e-8F;
  }
  return (h & 0x8000u) != 0 ? -value : value;
}
uint16_t HalfOf(float f) {
  const auto bits = std::bit_cast<uint32_t>(f);
  const uint32_t a = bits & 0x7fffffffu;
  if (a > 0x7f800000u) return 0x7fff;
  uint32_t result = 0;
  if (a >= 0x47800000u) {
    result = 0x7c00u;
  } else if (a < 0x38800000u) {
    result = std::bit_cast<uint32_t>(std::bit_cast<float>(a) + 0.5F) - 0x3f000000u;
  } else {
    result = (a + 0xc8000fffu + ((a >> 13) & 1u)) >> 13;
  }
  return static_cast<uint16_t>(result | ((bits >> 16) & 0x8000u));
}
float BrainValue(uint16_t b) { return std::bit_cast<float>(static_cast<uint32_t>(b) << 16); }
uint16_t BrainOf(float f) {
  const auto bits = std::bit_cast<uint32_t>(f);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return 0x7fff;
  return static_cast<uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}
uint16_t AddHalf(uint16_t a, uint16_t b) { return HalfOf(HalfValue(a) + HalfValue(b)); }
uint16_t AddBrain(uint16_t a, uint16_t b) { return BrainOf(BrainValue(a) + BrainValue(b)); }
template <uint16_t (*F)(uint16_t, uint16_t)>
uint32_t InPairs(uint32_t a, uint32_t b) {
  return uint32_t{F(static_cast<uint16_t>(a), static_cast<uint16_t>(b))} |
         uint32_t{F(static_cast<uint16_t>(a >> 16), static_cast<uint16_t>(b >> 16))} << 16;
}

/// Minima and maxima of halves: a number is preferred to a NaN.
template <float (*Value)(uint16_t), bool Max>
uint16_t OfTwoHalves(uint16_t a, uint16_t b) {
  const float x = Value(a), y = Value(b);
  if (std::isnan(x)) return b;
  if (std::isnan(y)) return a;
  if (x == y) return (Max ? std::signbit(x) : std::signbit(y)) ? b : a;
  return (x < y) == Max ? b : a;
}
template <float (*Value)(uint16_t)>
void RegisterHalfOrder(HandlerTable& table, const std::string& type) {
  using H = uint16_t;
  using U = uint32_t;
  auto least = [](H a, H b, H) { return OfTwoHalves<Value, false>(a, b); };
  auto most = [](H a, H b, H) { return OfTwoHalves<Value, true>(a, b); };
  Add<H>(table, "atom.min." + type, least, FloatMode::kIeee);
  Add<H>(table, "atom.max." + type, most, FloatMode::kIeee);
  Add<U>(
      table, "atom.min." + type + "x2",
      [](U a, U b, U) { return InPairs<&OfTwoHalves<Value, false>>(a, b); }, FloatMode::kIeee);
  Add<U>(
      table, "atom.max." + type + "x2",
      [](U a, U b, U) { return InPairs<&OfTwoHalves<Value, true>>(a, b); }, FloatMode::kIeee);
}

void RegisterFloatAtomics(HandlerTable& table) {
  Add<float>(
      table, "atom.add.f32", [](float a, float b, float) { return a + b; }, FloatMode::kIeee);
  Add<double>(
      table, "atom.add.f64", [](double a, double b, double) { return a + b; }, FloatMode::kIeee);
  using H = uint16_t;
  using U = uint32_t;
  Add<H>(table, "atom.add.f16", [](H a, H b, H) { return AddHalf(a, b); }, FloatMode::kIeee);
  Add<H>(table, "atom.add.bf16", [](H a, H b, H) { return AddBrain(a, b); }, FloatMode::kIeee);
  Add<U>(
      table, "atom.add.f16x2", [](U a, U b, U) { return InPairs<&AddHalf>(a, b); },
      FloatMode::kIeee);
  Add<U>(
      table, "atom.add.bf16x2", [](U a, U b, U) { return InPairs<&AddBrain>(a, b); },
      FloatMode::kIeee);
  RegisterHalfOrder<&HalfValue>(table, "f16");
  RegisterHalfOrder<&BrainValue>(table, "bf16");
}

}  // namespace

void RegisterAtomic(HandlerTable& table) {
  AddBits<uint16_t>(table, "b16");
  AddBits<uint32_t>(table, "b32");
  AddBits<uint64_t>(table, "b64");
  AddOrder<uint32_t>(table, "u32");
  AddOrder<int32_t>(table, "s32");
  AddOrder<uint64_t>(table, "u64");
  AddOrder<int64_t>(table, "s64");
  AddSum<uint32_t>(table, "u32");
  AddSum<uint32_t>(table, "s32");
  AddSum<uint64_t>(table, "u64");
  AddSum<uint64_t>(table, "s64");
  using U = uint32_t;
  Add<U>(table, "atom.inc.u32", [](U a, U b, U) { return a >= b ? 0u : a + 1; });
  Add<U>(table, "atom.dec.u32", [](U a, U b, U) { return a == 0 || a > b ? b : a - 1; });
  RegisterFloatAtomics(table);
  Entry access;
  access.full = access.masked = &AccessSlowly;
  table.Add("@access", access);
  Entry wide;
  wide.full = wide.masked = &WideAtomic;
  table.Add("@atom.b128", wide);
}

}  // namespace cupel::emu
