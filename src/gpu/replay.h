// Enqueues the nodes of a bound plan in a GPU's stream.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "engine/engine.h"
#include "gpu/blas.h"
#include "gpu/block.h"
#include "gpu/memory.h"
#include "gpu/module.h"

namespace cupel::gpu {

/// Why a node cannot be enqueued. At most one of the two members is set.
struct Refusal {
  std::optional<records::Finding> finding;
  std::string unsupported;
  bool ok() const { return !finding && unsupported.empty(); }
  /// Moves the reason to the members of a Run or a Taken.
  template <class Target>
  void MoveTo(Target* target) {
    if (finding) target->findings.push_back(std::move(*finding));
    target->unsupported = std::move(unsupported);
  }
};

/// Enqueues nodes, also into a capture, and owns the host memory that they read. Borrows its
/// arguments and the nodes. A request of the candidate that the driver rejects is a Refusal. Errors
/// at run time are found when the caller waits for the stream.
class Replay {
 public:
  /// `modules` are those of the images.
  Replay(const Device& device, std::span<const Module> modules, const PlanMemory& memory)
      : device_(device), modules_(modules), memory_(memory) {}

  Result<Refusal> Enqueue(const plan::Node& node);
  /// Enqueues all nodes in order, up to the first that is refused.
  Result<Refusal> Enqueue(const plan::Plan& plan);
  /// The same for a part: the prepared nodes, or those of every call.
  Result<Refusal> EnqueuePrepared(const plan::Plan& plan);
  Result<Refusal> EnqueueCall(const plan::Plan& plan);

 private:
  Result<Refusal> Enqueue(std::span<const plan::Node> nodes);
  Result<Refusal> Run(const plan::Launch& launch);
  Result<Refusal> Run(const plan::Copy& copy);
  Result<Refusal> Run(const plan::Upload& upload);
  Result<Refusal> Run(const plan::Fill& fill);
  Result<Refusal> Run(const plan::CopyView& copy);
  Result<Refusal> Run(const plan::Gemm& gemm);
  Result<Refusal> Run(const plan::Operator& work);
  Result<GemmAddresses> AddressesOf(const plan::Gemm& gemm);
  /// Writes the device addresses and tensor maps of a Launch or an Upload into its bytes.
  template <typename Work>
  Result<Refusal> Resolve(const Work& work, std::span<std::byte> bytes) const;
  Status CopyIn(const void* node, CuPointer to, std::string_view bytes);
  Refusal Outside(const plan::Address& address, uint64_t bytes, const char* who) const;

  const Device& device_;
  std::span<const Module> modules_;
  const PlanMemory& memory_;
  std::map<std::string, Module> copies_;      // by their PTX
  std::map<const void*, HostBlock> uploads_;  // by their node
  std::map<const void*, Block> pointers_;     // arrays of batched products, by their node
};

}  // namespace cupel::gpu
