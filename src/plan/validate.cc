// Checks the internal consistency of a plan that may come from hostile code: counts, sizes and
// every extent, in 128-bit arithmetic. Engines can then index buffers without more checks. Kernel
// parameters are raw bytes: what a kernel does with its pointers is checked when it runs.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "plan/codec.h"
#include "plan/limits.h"

namespace cupel::plan {
namespace {

__extension__ using Wide = __int128;

bool KnownDType(DType dtype) {
  const int number = static_cast<int>(dtype);
  return (number >= 0 && number <= 7) || dtype == DType::kBool || dtype == DType::kBF16 ||
         IsFloat8(dtype);
}

class Validator {
 public:
  explicit Validator(const Plan& plan) : plan_(plan) {}

  Status Run() {
    if (plan_.buffers.size() > kMaxBuffers) return Bad("it has too many buffers");
    if (plan_.nodes.size() > kMaxNodes) return Bad("it has too many nodes");
    if (plan_.outputs.size() > kMaxOutputs) return Bad("it has too many outputs");
    for (size_t i = 0; i < plan_.buffers.size(); ++i) {
      where_ = fmt::format("buffer {}", i);
      TRY(CheckBuffer(plan_.buffers[i]));
    }
    for (size_t i = 0; i < plan_.nodes.size(); ++i) {
      where_ = fmt::format("node {}", i);
      const Node& node = plan_.nodes[i];
      TRY(CheckAfter(node, i));
      TRY(std::visit([this](const auto& work) { return Check(work); }, node.work));
    }
    where_.clear();
    if (plan_.prepared < 0 || static_cast<size_t>(plan_.prepared) > plan_.nodes.size()) {
      return Bad("\"prepared\" is no number of nodes");
    }
    for (size_t i = 0; i < plan_.outputs.size(); ++i) {
      where_ = fmt::format("output {}", i);
      const View& view = plan_.outputs[i];
      if (view.address.buffer == kNoneOutput) {
        if (!view.shape.empty()) return Bad("None has a shape");
        continue;
      }
      TRY(CheckView(view, "view"));
    }
    where_.clear();
    for (const Number& number : plan_.numbers) {
      const auto at = static_cast<size_t>(number.output);
      if (number.output < 0 || at >= plan_.outputs.size() ||
          plan_.outputs[at].address.buffer != kNoneOutput) {
        return Bad("a number is for no output, or for one that is a tensor");
      }
    }
    return {};
  }

 private:
  Status Bad(std::string_view problem) const {
    return Fail(ErrorCode::kInvalidArgument, where_.empty()
                                                 ? fmt::format("plan: {}", problem)
                                                 : fmt::format("plan: {}: {}", where_, problem));
  }

  Status CheckImage(int image) const {
    return image >= 0 && image < kMaxImages ? Status() : Bad("image out of range");
  }

  Status CheckBuffer(const Buffer& buffer) {
    if (buffer.bytes > kMaxBufferBytes) return Bad("larger than the limit of 1 TiB");
    const bool is_argument = buffer.kind == BufferKind::kArgument;
    if (is_argument != (buffer.argument >= 0)) return Bad("argument index and kind disagree");
    if (is_argument && static_cast<size_t>(buffer.argument) >= kMaxBuffers) {
      return Bad("argument index out of range");
    }
    if ((buffer.kind == BufferKind::kSymbol) != !buffer.symbol.empty()) {
      return Bad("symbol name and kind disagree");
    }
    if (buffer.symbol.size() > kMaxNameBytes) return Bad("symbol name too long");
    if (buffer.kind != BufferKind::kSymbol && buffer.image != 0) {
      return Bad("image and kind disagree");
    }
    return CheckImage(buffer.image);
  }

  Status CheckAfter(const Node& node, size_t index) {
    edges_ += node.after.size();
    if (edges_ > kMaxEdges) return Bad("the plan has too many \"after\" edges");
    for (const int before : node.after) {
      if (before < 0 || static_cast<size_t>(before) >= index) {
        return Bad(fmt::format("\"after\" names node {}, which is not an earlier node", before));
      }
    }
    return {};
  }

  Status CountHostBytes(size_t bytes) {
    host_bytes_ += bytes;
    if (host_bytes_ > kMaxHostBytes) return Bad("the plan contains too many bytes from the host");
    return {};
  }

  bool InRange(int buffer) const {
    return buffer >= 0 && static_cast<size_t>(buffer) < plan_.buffers.size();
  }

  /// [address, address + bytes) must be inside its buffer. An empty extent may be anywhere, even
  /// null.
  Status CheckExtent(const Address& address, Wide bytes, std::string_view field) const {
    if (bytes == 0 && (address.buffer == -1 || InRange(address.buffer))) return {};
    if (!InRange(address.buffer)) return Bad(fmt::format("{}: no such buffer", field));
    const Wide size = plan_.buffers[static_cast<size_t>(address.buffer)].bytes;
    if (address.offset < 0 || address.offset + bytes > size) {
      return Bad(fmt::format("{}: bytes {}..{} are not inside buffer {} of {} bytes", field,
                             address.offset, static_cast<int64_t>(address.offset + bytes),
                             address.buffer, static_cast<int64_t>(size)));
    }
    return {};
  }

  Status CheckTarget(const Address& target, std::string_view what) const {
    if (!InRange(target.buffer)) return Bad(fmt::format("{}: no such buffer", what));
    if (target.offset > kMaxPointerOffset || target.offset < -kMaxPointerOffset) {
      return Bad(fmt::format("{}: offset out of range", what));
    }
    return {};
  }

  Status CheckRelocations(const std::vector<Relocation>& relocations, size_t bytes) const {
    uint64_t next = 0;
    for (const Relocation& relocation : relocations) {
      if (relocation.at < next) return Bad("relocations overlap or are not in ascending order");
      next = uint64_t{relocation.at} + 8;
      if (next > bytes) return Bad(fmt::format("relocation at {} past the end", relocation.at));
      TRY(CheckTarget(relocation.target, "relocation"));
    }
    return {};
  }

  /// Both lists must be in ascending order, so that one pass finds what overlaps.
  Status CheckTensorMaps(const std::vector<PlacedTensorMap>& maps,
                         const std::vector<Relocation>& relocations, size_t bytes) const {
    uint64_t next = 0;
    auto relocation = relocations.begin();
    for (const PlacedTensorMap& placed : maps) {
      if (placed.at < next) return Bad("tensor maps overlap or are not in ascending order");
      next = uint64_t{placed.at} + kTensorMapBytes;
      if (next > bytes) return Bad(fmt::format("tensor map at {} past the end", placed.at));
      while (relocation != relocations.end() && uint64_t{relocation->at} + 8 <= placed.at) {
        ++relocation;
      }
      if (relocation != relocations.end() && relocation->at < next) {
        return Bad(fmt::format("the tensor map at {} contains a relocation", placed.at));
      }
      TRY(CheckTarget(placed.address, "tensor map"));
      if (placed.address.offset % AlignmentOf(placed.map) != 0) {
        return Bad("tensor map: the address is not aligned");
      }
      if (const auto problem = ProblemOf(placed.map); !problem.empty()) {
        return Bad(fmt::format("tensor map: {}", problem));
      }
    }
    return {};
  }

  /// Shape, strides and dtype must be valid and every element must be in the buffer.
  Status CheckView(const View& view, std::string_view field) const {
    if (!KnownDType(view.dtype)) return Bad(fmt::format("{}: unknown dtype", field));
    if (view.shape.size() > kMaxViewDims || view.shape.size() != view.strides.size()) {
      return Bad(fmt::format("{}: shape and strides disagree or exceed 16 dimensions", field));
    }
    Wide last = 0;
    Wide count = 1;
    for (size_t i = 0; i < view.shape.size(); ++i) {
      const int64_t size = view.shape[i];
      const int64_t stride = view.strides[i];
      if (size < 0 || size > kMaxElements || stride < 0 || stride > kMaxElements) {
        return Bad(fmt::format("{}: size or stride of dimension {} out of range", field, i));
      }
      count *= size;
      if (count > kMaxElements) return Bad(fmt::format("{}: too many elements", field));
      if (size > 0) last += Wide{size - 1} * stride;
    }
    return CheckExtent(view.address, count == 0 ? 0 : (last + 1) * SizeOf(view.dtype), field);
  }

  Status Check(const Launch& launch) {
    if (launch.kernel.empty() || launch.kernel.size() > kMaxNameBytes) {
      return Bad("kernel name missing or too long");
    }
    TRY(CheckImage(launch.image));
    if (launch.parameters.size() > kMaxParameterBytes) return Bad("parameter block too large");
    TRY(CountHostBytes(launch.parameters.size()));
    if (!std::is_sorted(launch.places.begin(), launch.places.end()) ||
        (!launch.places.empty() && launch.places.back() >= launch.parameters.size())) {
      return Bad("places of parameters outside of the parameters or not in order");
    }
    TRY(CheckRelocations(launch.relocations, launch.parameters.size()));
    return CheckTensorMaps(launch.tensor_maps, launch.relocations, launch.parameters.size());
  }

  Status Check(const Copy& copy) {
    if (copy.bytes > kMaxBufferBytes) return Bad("copy too large");
    TRY(CheckExtent(copy.to, copy.bytes, "to"));
    return CheckExtent(copy.from, copy.bytes, "from");
  }

  Status Check(const Upload& upload) {
    TRY(CountHostBytes(upload.bytes.size()));
    TRY(CheckExtent(upload.to, static_cast<Wide>(upload.bytes.size()), "to"));
    TRY(CheckRelocations(upload.relocations, upload.bytes.size()));
    return CheckTensorMaps(upload.tensor_maps, upload.relocations, upload.bytes.size());
  }

  Status Check(const Fill& fill) {
    const size_t size = fill.pattern.size();
    if (size != 1 && size != 2 && size != 4 && size != 8) {
      return Bad("pattern must have 1, 2, 4 or 8 bytes");
    }
    return CheckExtent(fill.to, Wide{fill.count} * static_cast<Wide>(size), "to");
  }

  Status Check(const CopyView& copy) {
    TRY(CheckView(copy.to, "to"));
    TRY(CheckView(copy.from, "from"));
    if (copy.to.shape != copy.from.shape) return Bad("views of different shapes");
    return {};
  }

  /// Elements from the first to the last of `batch` column-major matrices.
  static Wide MatrixExtent(int64_t rows, int64_t columns, int64_t ld, int64_t batch,
                           int64_t stride) {
    if (rows == 0 || columns == 0 || batch == 0) return 0;
    return Wide{batch - 1} * stride + Wide{columns - 1} * ld + rows;
  }

  Status Check(const Gemm& gemm) {
    for (const int64_t size : {gemm.m, gemm.n, gemm.k, gemm.lda, gemm.ldb, gemm.ldc, gemm.batch}) {
      if (size < 0 || size > INT32_MAX) return Bad("size or leading dimension out of range");
    }
    for (const int64_t stride : {gemm.stride_a, gemm.stride_b, gemm.stride_c}) {
      if (stride < 0 || stride > kMaxElements) return Bad("batch stride out of range");
    }
    for (const DType dtype : {gemm.a_type, gemm.b_type, gemm.c_type}) {
      if (!KnownDType(dtype) || !IsFloating(dtype)) return Bad("not a floating-point type");
    }
    if (std::find(std::begin(kGemmComputes), std::end(kGemmComputes), gemm.compute) ==
        std::end(kGemmComputes)) {
      return Bad("unknown compute type");
    }
    const int64_t rows_a = gemm.transpose_a ? gemm.k : gemm.m;
    const int64_t rows_b = gemm.transpose_b ? gemm.n : gemm.k;
    if (gemm.lda < std::max<int64_t>(1, rows_a) || gemm.ldb < std::max<int64_t>(1, rows_b) ||
        gemm.ldc < std::max<int64_t>(1, gemm.m)) {
      return Bad("leading dimension smaller than the number of rows");
    }
    const auto check = [&](const Address& a, const Address& b, const Address& c,
                           int64_t batch) -> Status {
      const Wide extent_a =
          MatrixExtent(rows_a, gemm.transpose_a ? gemm.m : gemm.k, gemm.lda, batch, gemm.stride_a);
      const Wide extent_b =
          MatrixExtent(rows_b, gemm.transpose_b ? gemm.k : gemm.n, gemm.ldb, batch, gemm.stride_b);
      const Wide extent_c = MatrixExtent(gemm.m, gemm.n, gemm.ldc, batch, gemm.stride_c);
      TRY(CheckExtent(a, extent_a * SizeOf(gemm.a_type), "a"));
      TRY(CheckExtent(b, extent_b * SizeOf(gemm.b_type), "b"));
      return CheckExtent(c, extent_c * SizeOf(gemm.c_type), "c");
    };
    if (gemm.pointers.empty()) return check(gemm.a, gemm.b, gemm.c, gemm.batch);
    if (static_cast<int64_t>(gemm.pointers.size()) != gemm.batch) {
      return Bad("number of pointers differs from the batch size");
    }
    pointers_ += gemm.pointers.size();
    if (pointers_ > kMaxEdges) return Bad("too many batch pointers");
    for (const auto& [a, b, c] : gemm.pointers) TRY(check(a, b, c, 1));
    return {};
  }

  Status Check(const Operator& work) {
    if (work.name.empty() || work.name.size() > kMaxNameBytes) {
      return Bad("operator name missing or too long");
    }
    Status status;
    size_t views = 0;
    ForEachView(work, [&](const View& view, bool /*is_written*/) {
      if (++views > kMaxOperatorValues && status) status = Bad("too many tensors of an operator");
      if (status) status = CheckView(view, "a tensor of an operator");
    });
    return status;
  }

  const Plan& plan_;
  std::string where_;
  size_t edges_ = 0;
  size_t host_bytes_ = 0;
  size_t pointers_ = 0;
};

}  // namespace

Status Validate(const Plan& plan) { return Validator(plan).Run(); }

}  // namespace cupel::plan
