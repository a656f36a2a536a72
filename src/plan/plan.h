// A plan: all GPU work that a candidate requests for one call, as data: buffers, nodes in stream
// order, outputs. It contains no device addresses: pointers are (buffer, byte offset) relocations.
// The JSON form is plan/codec.h and docs/formats/plan.md.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>
#include <variant>
#include <vector>

#include "base/dtype.h"
#include "plan/tensor_map.h"

namespace cupel::plan {

enum class BufferKind {
  kArgument,   // storage of the tensor argument `argument` (index among tensor leaves)
  kTemporary,  // allocated during the call: contents undefined until written
  kWorkspace,  // kept across calls: poisoned before every replay
  kSymbol,  // a __device__ or __constant__ variable `symbol`; starts with the module's initialiser
};

struct Buffer {
  BufferKind kind = BufferKind::kTemporary;
  uint64_t bytes = 0;
  int argument = -1;     // kArgument
  std::string symbol;    // kSymbol: mangled name
  int image = 0;         // kSymbol: the image whose variable it is
  bool changes = false;  // kArgument: the task's function changes it, so kernels may write to it
  bool operator==(const Buffer&) const = default;
};

/// True if kernels must not write to the buffer.
inline bool IsReadOnly(const Buffer& buffer) {
  return buffer.kind == BufferKind::kArgument && !buffer.changes;
}

/// A readable name: "argument 1", "temporary 2", "workspace 3", "symbol kTable". `index` is the
/// buffer's index in its plan.
std::string NameOf(const Buffer& buffer, size_t index);

/// A device address: byte `offset` of `buffer`. buffer == -1 means the null pointer plus `offset`.
struct Address {
  int buffer = -1;
  int64_t offset = 0;
  bool operator==(const Address&) const = default;
};

/// The eight bytes at position `at` of a byte string are the device address `target`.
struct Relocation {
  uint32_t at = 0;
  Address target;
  bool operator==(const Relocation&) const = default;
};

/// The 128 bytes at position `at` of a byte string are `map` of the tensor at `address`.
struct PlacedTensorMap {
  uint32_t at = 0;
  Address address;
  TensorMap map;
  bool operator==(const PlacedTensorMap&) const = default;
};

/// A strided view. Strides are in elements; `address` is the first element.
struct View {
  Address address;
  DType dtype = DType::kF32;
  std::vector<int64_t> shape;
  std::vector<int64_t> strides;
  bool operator==(const View&) const = default;
};

/// The number of a view's elements.
uint64_t ElementsOf(const View& view);

struct Dim3 {
  uint32_t x = 1, y = 1, z = 1;
  bool operator==(const Dim3&) const = default;
  uint64_t Count() const { return uint64_t{x} * y * z; }
};

/// A kernel launch. `parameters` has the layout of the kernel's PTX .param space.
struct Launch {
  std::string kernel;  // mangled entry name
  int image = 0;       // that has the kernel: an index into the images of the recording
  Dim3 grid, block;
  Dim3 cluster;  // 1,1,1 without clusters
  /// Launched as clusters of one block. Without clusters, st.async and the like are illegal.
  bool lone_clusters = false;
  uint32_t dynamic_shared = 0;
  bool cooperative = false;
  /// May start before the launch in front of it has ended (programmatic stream serialization).
  bool early = false;
  std::string parameters;  // raw bytes; relocated words and tensor maps are zero
  std::vector<Relocation> relocations;
  std::vector<PlacedTensorMap> tensor_maps;
  /// With tensor maps: where each parameter begins in `parameters`. Drivers align parameters to
  /// other addresses, so there the distances between them differ.
  std::vector<uint32_t> places;
  bool operator==(const Launch&) const = default;
};

/// Device-to-device copy of bytes.
struct Copy {
  Address to, from;
  uint64_t bytes = 0;
  bool operator==(const Copy&) const = default;
};

/// Bytes from the host (cudaMemcpy host-to-device, cudaMemcpyToSymbol, tensors made on the host).
struct Upload {
  Address to;
  std::string bytes;  // relocated words and tensor maps are zero
  std::vector<Relocation> relocations;
  std::vector<PlacedTensorMap> tensor_maps;
  bool operator==(const Upload&) const = default;
};

/// Repeats `pattern` (1, 2, 4 or 8 bytes) `count` times: cudaMemset, torch::zeros, torch::full.
struct Fill {
  Address to;
  std::string pattern;
  uint64_t count = 0;
  bool operator==(const Fill&) const = default;
};

/// Element-wise copy between views of equal shape, converting the dtype as PyTorch's copy_ does.
/// Used for Tensor::contiguous, to(dtype) and copy_. Strided fills have a zero-stride source.
struct CopyView {
  View to, from;
  bool operator==(const CopyView&) const = default;
};

/// C = alpha * op(A) * op(B) + beta * C, column-major as in cuBLAS. `batch` > 1 uses the strides
/// (in elements).
struct Gemm {
  bool transpose_a = false, transpose_b = false;
  int64_t m = 0, n = 0, k = 0;
  double alpha = 1, beta = 0;
  Address a, b, c;
  int64_t lda = 0, ldb = 0, ldc = 0;
  DType a_type = DType::kF32, b_type = DType::kF32, c_type = DType::kF32;
  std::string compute = "f32";  // "f32", "f32_tf32", "f16", "f64": cuBLAS compute type
  int64_t batch = 1, stride_a = 0, stride_b = 0, stride_c = 0;
  std::vector<std::array<Address, 3>> pointers;  // pointer-array batching; empty otherwise
  bool operator==(const Gemm&) const = default;
};

/// The buffer of a view that stands for None.
inline constexpr int kNoneOutput = -2;

/// An argument of an Operator: None, a bool, a whole number, a number, a text, a tensor, or a list
/// of these. Dtypes, layouts and memory formats are PyTorch's numbers.
struct OperatorValue {
  std::variant<std::monostate, bool, int64_t, double, std::string, View, std::vector<OperatorValue>>
      data;
  /// A NaN equals a NaN with the same bits.
  bool operator==(const OperatorValue& other) const {
    const auto* one = std::get_if<double>(&data);
    const auto* two = std::get_if<double>(&other.data);
    if (one == nullptr || two == nullptr) return data == other.data;
    return std::bit_cast<uint64_t>(*one) == std::bit_cast<uint64_t>(*two);
  }
};

/// A call of an operator of PyTorch, which PyTorch executes. Operators that only make views are not
/// nodes.
struct Operator {
  std::string name;                      // of the overload: "aten::sum.dim_IntList"
  std::vector<OperatorValue> arguments;  // all that the schema has, in its order
  std::vector<int> mutated;              // the arguments that the operator writes
  std::vector<View> results;             // buffer kNoneOutput: the result is an argument
  bool operator==(const Operator&) const = default;
};

/// Calls `visit(view, is_written)` with the views of a value or an operator.
template <typename Value, typename Visit>
void ForEachViewOf(Value& value, bool is_written, Visit visit) {
  if (auto* view = std::get_if<View>(&value.data)) {
    visit(*view, is_written);
  } else if (auto* items = std::get_if<std::vector<OperatorValue>>(&value.data)) {
    for (auto& item : *items) ForEachViewOf(item, is_written, visit);
  }
}
template <typename Work, typename Visit>
void ForEachView(Work& work, Visit visit) {
  for (size_t i = 0; i < work.arguments.size(); ++i) {
    const bool is_written = std::find(work.mutated.begin(), work.mutated.end(),
                                      static_cast<int>(i)) != work.mutated.end();
    ForEachViewOf(work.arguments[i], is_written, visit);
  }
  for (auto& view : work.results) {
    if (view.address.buffer != kNoneOutput) visit(view, true);
  }
}

/// Calls `visit` with every device address in the bytes of a Launch or an Upload.
template <typename Work, typename Visit>
void ForEachPointer(Work& work, Visit visit) {
  for (auto& relocation : work.relocations) visit(relocation.target);
  for (auto& placed : work.tensor_maps) visit(placed.address);
}

/// Calls `visit` with every device address of a node's work.
template <typename Work, typename Visit>
void ForEachAddress(Work& work, Visit visit) {
  using Plain = std::remove_const_t<Work>;
  if constexpr (std::is_same_v<Plain, Launch>) {
    ForEachPointer(work, visit);
  } else if constexpr (std::is_same_v<Plain, Upload>) {
    visit(work.to);
    ForEachPointer(work, visit);
  } else if constexpr (std::is_same_v<Plain, Copy>) {
    visit(work.from);
    visit(work.to);
  } else if constexpr (std::is_same_v<Plain, Fill>) {
    visit(work.to);
  } else if constexpr (std::is_same_v<Plain, CopyView>) {
    visit(work.from.address);
    visit(work.to.address);
  } else if constexpr (std::is_same_v<Plain, Gemm>) {
    for (auto* address : {&work.a, &work.b, &work.c}) visit(*address);
    for (auto& product : work.pointers) {
      for (auto& address : product) visit(address);
    }
  } else {
    static_assert(std::is_same_v<Plain, Operator>);
    ForEachView(work, [&](auto& view, bool /*is_written*/) { visit(view.address); });
  }
}

struct Node {
  std::variant<Launch, Copy, Upload, Fill, CopyView, Gemm, Operator> work;
  /// Indices of earlier nodes that must finish first (stream order, events). The list order of
  /// nodes is one valid total order.
  std::vector<int> after;
  bool operator==(const Node&) const = default;
};

/// A result that is no tensor: the output with this number, which is None among the views.
struct Number {
  int output = 0;
  std::variant<bool, int64_t, double> value;
  bool operator==(const Number&) const = default;
};

struct Plan {
  std::vector<Buffer> buffers;
  std::vector<Node> nodes;
  std::vector<View> outputs;  // in the order returned; None is a View with address.buffer -2
  /// Only of functions that a program calls, which uses them. What is judged returns tensors alone.
  std::vector<Number> numbers = {};
  bool returns_tuple = false;
  /// The first nodes make what later calls find in memory: work of a program's construction, which
  /// depends on no input. A call repeats them.
  int prepared = 0;
  std::string function;  // "forward" or "backward"
  std::string device;    // device::Description::name that the host code saw
  bool operator==(const Plan&) const = default;
};

/// True if a buffer of the plan is the variable `symbol` of `image`.
inline bool HasVariable(const Plan& plan, int image, std::string_view symbol) {
  return std::any_of(plan.buffers.begin(), plan.buffers.end(), [&](const Buffer& buffer) {
    return buffer.kind == BufferKind::kSymbol && buffer.image == image && buffer.symbol == symbol;
  });
}

/// The least memory traffic of a call: every argument read once, every output written once.
struct Traffic {
  uint64_t read_bytes = 0, written_bytes = 0;
};
Traffic LeastTraffic(const Plan& plan);

}  // namespace cupel::plan
