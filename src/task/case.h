// A case: one call of a task's function, in a language-neutral form. It contains the positional
// arguments, PyTorch's float32 results, the float64 truth, and the error scale E (docs/judging.md).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/json.h"
#include "os/mapped_file.h"
#include "task/tensor.h"

namespace cupel::task {

/// How an output's indices rank elements. An index is right if its element has the label of the one
/// that the truth names, and if no other index of the same row names that element.
struct Ranking {
  Tensor labels;  // int32, contiguous; of all elements that are ranked
  int dim = 0;    // the ranked dimension of `labels`; the output has it too, or lacks it
};

/// The expected result at one position.
struct Output {
  bool is_none = false;  // the task ignores this position (an unneeded gradient)
  /// The result is what the call leaves in this tensor of the arguments (index among TensorLeaves),
  /// which the reference changes; -1: the function returns it. Such results come last.
  int argument = -1;
  std::string name;            // for messages: "output", or the input whose gradient this is
  DType dtype = DType::kF32;   // the contract
  std::vector<int64_t> shape;  // the contract
  Tensor reference;            // as PyTorch computes it, contract dtype, contiguous
  Tensor truth;                // float64 (or the contract dtype for integers), contiguous
  /// The truth if the numbers in the task's code were rounded to float32, as a kernel's are. Only
  /// if that changes the output: 1 - 0.999 is 0.00099998713 of the rounded number.
  std::optional<Tensor> rounded_truth;
  /// Integer outputs only: other right results. The truth if what the reference rounds within
  /// rounding of a tie is below the tie, or above it; and if it named others of equal elements. An
  /// element that equals that of the truth or one of these is right.
  std::vector<Tensor> neighbours;
  std::optional<Ranking> ranking;  // integer outputs only: they are indices of ranked elements
  double error_scale = 0;  // E of the tolerance rule, absolute; 0 for integer outputs (exact)
  /// The reference rounds to float8, and the truth leaves that out: so may exact values.
  bool rounds_to_float8 = false;
  double conditioning = 0;  // RMS effect of inputs moved by a relative 2^-22; part of E
  int64_t Elements() const;
};

/// Move-only: owns the mapping that its tensors point into.
struct Case {
  std::string task_name;
  std::string setting;  // Setting::id
  uint64_t seed = 0;    // of the inputs
  std::string torch_version;
  std::vector<Value> args;
  /// True when the function must return a tuple/list/vector, false for a lone tensor.
  bool returns_tuple = false;
  std::vector<Output> outputs;
  /// Of `outputs`, those that the function returns.
  size_t ReturnedOutputs() const;
  /// SHA-256 of the SHA-256 digests of the case file's 16 MiB chunks (docs/formats/case.md).
  std::string content_hash;
  os::MappedFile mapping;
};

/// A call's arguments without their data: every storage borrows the same zeros.
struct CallShape {
  std::vector<Value> args;
  std::span<const std::byte> zeros;  // all of them
  /// Whole numbers that the task's signatures give to keywords that the setting leaves out.
  Json default_init = Json::object(), default_inputs = Json::object();
};

}  // namespace cupel::task
