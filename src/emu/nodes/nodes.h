// The nodes of a plan that are not launches: copies, uploads, fills, strided and converting copies,
// matrix products. Every access is checked against its buffer. A wrong size is a finding and never
// crashes the process.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "emu/core/memory.h"
#include "emu/core/thread_pool.h"
#include "engine/engine.h"
#include "plan/operators.h"
#include "plan/plan.h"

namespace cupel::emu {

/// The location of buffer i of the plan.
struct BoundBuffer {
  uint64_t address = 0;  // device address
  uint64_t bytes = 0;
  std::string name;  // as Allocation::name
};

/// The device address for a plan's address. Invalid offsets give addresses outside every buffer.
uint64_t DeviceAddress(std::span<const BoundBuffer> buffers, const plan::Address& address);

/// Writes the device addresses of `relocations` (8 bytes each, little-endian) and the tensor maps
/// (plan::EncodeTensorMap) into `bytes`. Returns false if one does not fit.
bool Relocate(std::span<const plan::Relocation> relocations,
              std::span<const plan::PlacedTensorMap> tensor_maps,
              std::span<const BoundBuffer> buffers, std::span<std::byte> bytes);

/// The error of a node: at most one of the two is set.
struct NodeOutcome {
  std::optional<records::Finding> finding;
  std::string unsupported;
  bool ok() const { return !finding && unsupported.empty(); }
};

NodeOutcome NodeFailure(std::string code, std::string message);

/// Executes nodes on bound buffers. Borrows its arguments. Thread-compatible.
class NodeRunner {
 public:
  NodeRunner(const GlobalMemory& memory, std::span<const BoundBuffer> buffers, ThreadPool& pool)
      : memory_(memory), buffers_(buffers), pool_(pool) {}

  NodeOutcome Run(const plan::Copy& copy) const;
  NodeOutcome Run(const plan::Upload& upload) const;
  NodeOutcome Run(const plan::Fill& fill) const;
  NodeOutcome Run(const plan::CopyView& copy) const;
  NodeOutcome Run(const plan::Gemm& gemm) const;
  /// Errors: those of `operators`.
  Result<NodeOutcome> Run(const plan::Operator& work, plan::OperatorRunner& operators) const;

  /// Copies a view into `bytes` as a contiguous tensor.
  NodeOutcome Extract(const plan::View& view, const std::string& what,
                      std::vector<std::byte>* bytes) const;
  /// Copies those elements of a contiguous view, one range after the other.
  NodeOutcome ExtractRanges(const plan::View& view, const std::string& what,
                            std::span<const engine::ElementRange> ranges,
                            std::vector<std::byte>* bytes) const;

 private:
  /// Host memory of `bytes` bytes at `address`, or a finding that names the accessor and the
  /// reason.
  std::byte* Access(const plan::Address& address, uint64_t bytes, const char* who, const char* verb,
                    NodeOutcome* outcome) const;
  std::byte* AccessView(const plan::View& view, const char* who, const char* verb,
                        NodeOutcome* outcome) const;

  const GlobalMemory& memory_;
  std::span<const BoundBuffer> buffers_;
  ThreadPool& pool_;
};

}  // namespace cupel::emu
