// Shadows through the nodes of a plan that are not launches, and of the outputs.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "emu/core/memory.h"
#include "emu/core/thread_pool.h"
#include "emu/nodes/nodes.h"
#include "emu/shadow/memory.h"
#include "engine/engine.h"
#include "plan/plan.h"

namespace cupel::emu {

/// Borrows its arguments. Call After() only for nodes that NodeRunner has executed without error.
class ShadowNodes {
 public:
  ShadowNodes(ShadowMemory& shadows, const GlobalMemory& memory,
              std::span<const BoundBuffer> buffers, ThreadPool& pool)
      : shadows_(shadows), memory_(memory), buffers_(buffers), pool_(pool) {}

  template <typename Node>
  void Before(const Node&) {}
  void Before(const plan::Gemm& gemm);
  void Before(const plan::Operator& work);

  void After(const plan::Copy& copy);
  void After(const plan::Upload& upload);
  void After(const plan::Fill& fill);
  void After(const plan::CopyView& copy);
  void After(const plan::Gemm& gemm);
  /// Executes the operator in float64. Errors: those of `operators`.
  Status After(const plan::Operator& work, plan::OperatorRunner& operators);

  /// Fills in the output's shadows.
  void Extract(const plan::View& view, engine::OutputTensor* output) const;
  /// Describes what was too large to follow; may be empty.
  const std::string& not_followed() const { return not_followed_; }

 private:
  struct Matrix {
    std::vector<double> exact;   // row-major
    std::vector<uint32_t> rows;  // flags of each row
    std::vector<uint32_t> columns;
  };
  /// An operator in float64: each of its views is a buffer of its own, contiguous.
  struct ExactCall {
    plan::Operator work;
    std::vector<std::vector<std::byte>> memory;  // of the views, in the order of ForEachView
    uint32_t flags = 0;                          // of all arguments
    uint32_t element_flags = 0;                  // the same, of their elements
    bool is_too_large = false;
  };
  void ReadView(const plan::View& view, bool is_result, ExactCall* call) const;
  void WriteView(const plan::View& view, const std::vector<std::byte>* exact, uint32_t flags);
  Matrix ReadMatrix(uint64_t address, DType dtype, int64_t rows, int64_t columns, int64_t ld,
                    bool transposed) const;
  void Multiply(const plan::Gemm& gemm, const std::array<plan::Address, 3>& at, Matrix* old) const;
  std::vector<std::array<plan::Address, 3>> Products(const plan::Gemm& gemm) const;
  Shadow ReadElement(uint64_t address, DType dtype) const;

  ShadowMemory& shadows_;
  const GlobalMemory& memory_;
  std::span<const BoundBuffer> buffers_;
  ThreadPool& pool_;
  std::string not_followed_;
  std::vector<Matrix> old_;  // previous results of a product that adds to them
  ExactCall call_;
};

}  // namespace cupel::emu
