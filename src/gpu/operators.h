// PyTorch's operators in a GPU worker that runs in a Python process (worker_library.h): they run on
// the worker's stream, also into a capture, between the candidate's kernels.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "gpu/block.h"
#include "gpu/memory.h"
#include "plan/plan.h"

namespace cupel::gpu {

/// Also the memory that PyTorch allocates on the GPU. A result for which PyTorch allocates memory
/// of exactly its size gets its place in the plan, so nothing has to be copied.
class Operators {
 public:
  /// Enqueues an operator: {"name", "arguments", "results", "ranges", "stream"}. Views are in
  /// "ranges" ([address, bytes]). Returns what PyTorch says against the call, or an empty text.
  using Call = std::function<std::string(const std::string& request)>;
  explicit Operators(Call call) : call_(std::move(call)) {}

  /// PyTorch may allocate from now on. Borrows the device.
  void Open(const Device& device) { device_ = &device; }

  /// All of its views must be inside their buffers. Returns what PyTorch says against the call.
  Result<std::string> Enqueue(const plan::Operator& work, const PlanMemory& memory);

  /// PyTorch's allocator. Memory that is returned is used again for later work of the stream.
  /// `Allocate` returns 0 if there is no memory. Thread-safe.
  CuPointer Allocate(uint64_t bytes);
  void Free(CuPointer address);

  /// Enqueues fills of all memory that PyTorch has used: a kernel must not find there what an
  /// earlier one left.
  Status Clear();
  /// Returns the memory that PyTorch does not use to the GPU. No captured graph may use it, and the
  /// stream must be idle.
  void Trim();

 private:
  struct Piece {
    Block block;
    bool is_used = false;
  };

  Call call_;
  const Device* device_ = nullptr;
  std::mutex mutex_;
  std::list<Piece> pieces_;
  std::multimap<uint64_t, CuPointer> expected_;  // places of results, by their bytes
};

}  // namespace cupel::gpu
