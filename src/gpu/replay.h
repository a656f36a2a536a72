// Puts the nodes of a bound plan into a GPU's stream.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "engine/engine.h"
#include "gpu/blas.h"
#include "gpu/block.h"
#include "gpu/memory.h"
#include "gpu/module.h"

namespace cupel::gpu {

/// What stands in the way of a node: at most one of the two is set.
struct Refusal {
  std::optional<engine::Finding> finding;
  std::string unsupported;
  bool ok() const { return !finding && unsupported.empty(); }
  /// Says it in the members of a Run or a Taken.
  template <class Told>
  void MoveTo(Told* told) {
    if (finding) told->findings.push_back(std::move(*finding));
    told->unsupported = std::move(unsupported);
  }
};

/// Enqueues nodes, also into a capture, and keeps what they read from the host as long as it lives;
/// borrows its arguments and the nodes. What the candidate asked for and the driver refuses is a
/// Refusal; what runs wrong later shows when the stream is awaited.
class Replay {
 public:
  Replay(const Device& device, const Module& module, const PlanMemory& memory)
      : device_(device), module_(module), memory_(memory) {}

  Result<Refusal> Enqueue(const plan::Node& node);
  /// All nodes in their order, up to the first that is refused.
  Result<Refusal> Enqueue(const plan::Plan& plan);

 private:
  Result<Refusal> Run(const plan::Launch& launch);
  Result<Refusal> Run(const plan::Copy& copy);
  Result<Refusal> Run(const plan::Upload& upload);
  Result<Refusal> Run(const plan::Fill& fill);
  Result<Refusal> Run(const plan::CopyView& copy);
  Result<Refusal> Run(const plan::Gemm& gemm);
  Result<GemmAddresses> AddressesOf(const plan::Gemm& gemm);
  Status CopyIn(const void* node, CuPointer to, std::string_view bytes);
  Refusal Outside(const plan::Address& address, uint64_t bytes, const char* who) const;

  const Device& device_;
  const Module& module_;
  const PlanMemory& memory_;
  std::map<std::string, Module> copies_;      // by their PTX
  std::map<const void*, HostBlock> uploads_;  // by their node
  std::map<const void*, Block> pointers_;     // of batched products, by their node
};

}  // namespace cupel::gpu
