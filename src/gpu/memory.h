// The buffers of a plan in a GPU's memory, each between two red zones. Unwritten memory contains
// poison. Writes outside a buffer are detected in its red zones.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "gpu/device.h"
#include "gpu/module.h"
#include "plan/plan.h"

namespace cupel::gpu {

/// The content of unwritten words for poison 0, 1 and 2: a NaN, a huge number, its negative
/// (engine::RunOptions::poison).
uint32_t PoisonWord(int poison);

/// The place of a plan's buffer.
struct Place {
  CuPointer address = 0;
  uint64_t bytes = 0;
  std::string name;  // "argument 1", "workspace 3"
};

class PlanMemory {
 public:
  /// With a seed in `spread`, the order of the buffers and the gaps between them are random, so
  /// that code that depends on addresses is detected. Without it, buffers are placed one after
  /// another.
  explicit PlanMemory(const Device& device, std::optional<uint64_t> spread = {})
      : device_(device), spread_(spread) {}

  /// Device memory that the plan's buffers take, including red zones and gaps.
  uint64_t BytesFor(const plan::Plan& plan) const;
  /// Places the plan's buffers in the BytesFor(plan) bytes at `base` (a multiple of 512). Variables
  /// are in the modules of their images. Fills arguments with their storages, and temporaries and
  /// workspaces with poison. An Error means that plan, arguments and modules do not match.
  Status Bind(const plan::Plan& plan, std::span<const std::span<const std::byte>> arguments,
              std::span<const Module> modules, int poison, CuPointer base);
  /// Only the first step of Bind, for a base that already contains arguments of the same layout.
  Status PlaceBuffers(const plan::Plan& plan, std::span<const Module> modules, CuPointer base);
  /// Copies the arguments that the plan's call may change once more.
  Status RestoreArguments(const plan::Plan& plan,
                          std::span<const std::span<const std::byte>> arguments);
  /// Enqueues fills of temporaries and workspaces with poison.
  Status Poison(int poison) const;

  std::span<const Place> places() const { return places_; }
  /// The device address of a plan's address. nullopt if the buffer does not exist.
  std::optional<CuPointer> AddressOf(const plan::Address& address) const;
  /// Writes device addresses into `bytes`. False if one does not fit.
  bool Relocate(std::span<const plan::Relocation> relocations, std::span<std::byte> bytes) const;
  /// True when `bytes` bytes at `address` are within its buffer.
  bool Contains(const plan::Address& address, uint64_t bytes) const;

  /// After a run: describes the first changed byte of a red zone ("8 bytes before argument 1").
  /// Waits for the stream.
  Result<std::optional<std::string>> FindStrayWrite() const;

 private:
  Status CopyArguments(const plan::Plan& plan,
                       std::span<const std::span<const std::byte>> arguments,
                       bool (*is_copied)(const plan::Buffer&));

  const Device& device_;
  std::optional<uint64_t> spread_;
  std::vector<Place> places_;
  std::vector<plan::BufferKind> kinds_;
};

}  // namespace cupel::gpu
