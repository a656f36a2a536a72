// The buffers of a plan in a GPU's memory, each between two red zones. What nothing has written
// reads as poison; a write beside a buffer shows in its red zones.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "gpu/device.h"
#include "plan/plan.h"

namespace cupel::gpu {

/// 0, 1, 2: what the words of memory hold that nothing has written: a NaN, a huge number, its
/// negative (engine::RunOptions::poison).
uint32_t PoisonWord(int poison);

/// Where buffer i of a plan lies.
struct Place {
  CuPointer address = 0;
  uint64_t bytes = 0;
  std::string name;  // "argument 1", "workspace 3"
};

class PlanMemory {
 public:
  /// With a seed in `spread`, buffers lie in an order and with gaps that are drawn from it, so that
  /// code that decides by an address is seen; without, one behind the other.
  explicit PlanMemory(const Device& device, std::optional<uint64_t> spread = {})
      : device_(device), spread_(spread) {}

  /// Device memory that the plan's buffers take, red zones and gaps included.
  uint64_t BytesFor(const plan::Plan& plan) const;
  /// Places the plan's buffers anew in the BytesFor(plan) bytes at `base`, a multiple of 512, and
  /// in `module` those that are its variables: arguments hold their storages, temporaries and
  /// workspaces poison. An Error means that plan, arguments and module do not belong together.
  Status Bind(const plan::Plan& plan, std::span<const std::span<const std::byte>> arguments,
              CuModule module, int poison, CuPointer base);
  /// The first step of Bind alone: for a base where arguments of the same layout are already.
  Status PlaceBuffers(const plan::Plan& plan, CuModule module, CuPointer base);
  /// Enqueues poison over temporaries and workspaces.
  Status Poison(int poison) const;

  std::span<const Place> places() const { return places_; }
  /// What a plan's address stands for; a buffer that does not exist gives nothing.
  std::optional<CuPointer> AddressOf(const plan::Address& address) const;
  /// Writes device addresses into `bytes`; false when one does not fit.
  bool Relocate(std::span<const plan::Relocation> relocations, std::span<std::byte> bytes) const;
  /// True when `bytes` bytes at `address` lie within its buffer.
  bool Contains(const plan::Address& address, uint64_t bytes) const;

  /// After a run: the first byte of a red zone that changed, in words ("4 bytes past the end of
  /// argument 1"). Waits for the stream.
  Result<std::optional<std::string>> FindStrayWrite() const;

 private:
  const Device& device_;
  std::optional<uint64_t> spread_;
  std::vector<Place> places_;
  std::vector<plan::BufferKind> kinds_;
};

}  // namespace cupel::gpu
