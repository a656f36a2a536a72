// SPDX-License-Identifier: Apache-2.0
#include "emu/shadow/nodes.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <tuple>

#include "base/json.h"
#include "emu/core/source_line.h"
#include "emu/nodes/gemm.h"
#include "emu/shadow/small.h"
#include "task/tensor.h"

namespace cupel::emu {
namespace {

/// Larger products are not followed: their results are reset.
constexpr double kMostShadowProducts = 2e10;

uint64_t BitsAt(const std::byte* at, DType dtype) {
  uint64_t bits = 0;
  std::memcpy(&bits, at, static_cast<size_t>(SizeOf(dtype)));
  return bits;
}

int64_t CountOf(const std::vector<int64_t>& shape) {
  int64_t count = 1;
  for (int64_t size : shape) count *= size;
  return count;
}

/// Calls f(index, element offset in a, element offset in b) for all elements in row-major order.
template <class F>
void ForElements(const std::vector<int64_t>& shape, const std::vector<int64_t>& a,
                 const std::vector<int64_t>& b, F f) {
  const int64_t count = CountOf(shape);
  if (count <= 0) return;
  std::vector<int64_t> index(shape.size(), 0);
  int64_t at_a = 0, at_b = 0;
  for (int64_t i = 0; i < count; ++i) {
    f(i, at_a, at_b);
    for (size_t axis = shape.size(); axis-- > 0;) {
      at_a += a[axis];
      at_b += b[axis];
      if (++index[axis] < shape[axis]) break;
      at_a -= a[axis] * shape[axis];
      at_b -= b[axis] * shape[axis];
      index[axis] = 0;
    }
  }
}

/// The places that flagged elements, with the number of elements for each.
std::vector<records::ShadowCause> CausesOf(const ShadowSites& places,
                                           const std::array<int64_t, ShadowSites::kMost>& counts) {
  std::vector<std::pair<ShadowSite, int64_t>> found;
  const std::vector<ShadowSite> all = places.All();
  for (size_t i = 0; i < all.size(); ++i) {
    if (counts[i] > 0) found.emplace_back(all[i], counts[i]);
  }
  std::sort(found.begin(), found.end(), [](const auto& a, const auto& b) {
    if (a.second != b.second) return a.second > b.second;
    return std::tie(a.first.kernel, a.first.file, a.first.line) <
           std::tie(b.first.kernel, b.first.file, b.first.line);
  });
  std::vector<records::ShadowCause> causes;
  for (const auto& [site, count] : found) {
    std::string what = site.mnemonic.empty() ? "other places" : site.mnemonic;
    if (site.line > 0) {
      what += " at " + PlaceText(site.file, site.line);
    } else if (!site.kernel.empty()) {
      what += " in " + site.kernel;
    }
    causes.push_back({std::move(what), count});
  }
  return causes;
}

plan::Address Advance(const plan::Address& address, int64_t by, DType dtype) {
  return {address.buffer, address.offset + by * SizeOf(dtype)};
}

}  // namespace

Shadow ShadowNodes::ReadElement(uint64_t address, DType dtype) const {
  return shadows_.Read(address, dtype, BitsAt(memory_.Host(address), dtype));
}

void ShadowNodes::After(const plan::Copy& copy) {
  shadows_.Copy(DeviceAddress(buffers_, copy.to), DeviceAddress(buffers_, copy.from), copy.bytes);
}
void ShadowNodes::After(const plan::Upload& upload) {
  shadows_.Clear(DeviceAddress(buffers_, upload.to), upload.bytes.size());
}
void ShadowNodes::After(const plan::Fill& fill) {
  shadows_.Clear(DeviceAddress(buffers_, fill.to), fill.count * fill.pattern.size());
}

void ShadowNodes::After(const plan::CopyView& copy) {
  const uint64_t to = DeviceAddress(buffers_, copy.to.address);
  const uint64_t from = DeviceAddress(buffers_, copy.from.address);
  const int64_t to_size = SizeOf(copy.to.dtype), from_size = SizeOf(copy.from.dtype);
  ForElements(copy.to.shape, copy.to.strides, copy.from.strides,
              [&](int64_t, int64_t at_to, int64_t at_from) {
                const uint64_t target = to + static_cast<uint64_t>(at_to * to_size);
                const uint64_t source = from + static_cast<uint64_t>(at_from * from_size);
                Shadow shadow = ReadElement(source, copy.from.dtype);
                const uint64_t bits = BitsAt(memory_.Host(target), copy.to.dtype);
                if (!IsFloating(copy.from.dtype) && IsFloating(copy.to.dtype)) {
                  shadow.exact =
                      LeafOf(shadows_.field(), ValueOfBits(copy.to.dtype, bits));  // of an integer
                } else if (IsFloating(copy.from.dtype) && !IsFloating(copy.to.dtype)) {
                  shadow.flags |= kReset;
                }
                if (IsFloat8(copy.to.dtype) && copy.to.dtype != copy.from.dtype) {
                  RoundToFloat8(copy.to.dtype, ValueOfBits(copy.to.dtype, bits), shadow);
                  if (shadows_.field() != nullptr) shadow.flags |= kReset;  // not followed
                }
                shadows_.Write(target, copy.to.dtype, bits, shadow);
              });
}

void ShadowNodes::ReadView(const plan::View& view, bool is_result, ExactCall* call) const {
  constexpr int64_t kMostElements = int64_t{1} << 27;
  const bool is_float = IsFloating(view.dtype);
  const int64_t count = CountOf(view.shape), size = is_float ? 8 : SizeOf(view.dtype);
  std::vector<std::byte>& bytes = call->memory.emplace_back();
  call->is_too_large |= count > kMostElements;
  if (call->is_too_large || count <= 0) return;
  const bool has_elements = is_float && shadows_.field() != nullptr;
  bytes.resize(static_cast<size_t>(count * size * (has_elements ? 2 : 1)));
  if (is_result) return;
  const uint64_t base = DeviceAddress(buffers_, view.address);
  ForElements(view.shape, view.strides, view.strides, [&](int64_t i, int64_t at, int64_t) {
    const uint64_t address = base + static_cast<uint64_t>(at * SizeOf(view.dtype));
    const Shadow shadow = ReadElement(address, view.dtype);
    call->flags |= shadow.flags;
    std::byte* to = bytes.data() + i * size;
    if (has_elements) {
      const double value = ValueOfBits(view.dtype, BitsAt(memory_.Host(address), view.dtype));
      const double element = shadows_.field()->Sent(shadow.exact, &call->element_flags);
      std::memcpy(to, &value, sizeof value);
      std::memcpy(to + count * size, &element, sizeof element);
    } else if (is_float) {
      std::memcpy(to, &shadow.exact, sizeof shadow.exact);
    } else {
      std::memcpy(to, memory_.Host(address), static_cast<size_t>(size));
    }
  });
}

void ShadowNodes::Before(const plan::Operator& work) {
  call_ = {};
  call_.work = work;
  const auto first_result = std::count_if(
      work.results.begin(), work.results.end(),
      [](const plan::View& view) { return view.address.buffer != plan::kNoneOutput; });
  ptrdiff_t views = 0;
  plan::ForEachView(work, [&](const plan::View&, bool) { ++views; });
  plan::ForEachView(call_.work, [&](plan::View& view, bool /*is_written*/) {
    const auto index = static_cast<ptrdiff_t>(call_.memory.size());
    ReadView(view, index >= views - first_result, &call_);
    std::vector<int64_t> shape = view.shape;
    const bool is_float = IsFloating(view.dtype);
    if (is_float && shadows_.field() != nullptr) shape.insert(shape.begin(), 2);
    view = {{static_cast<int>(index), 0},
            is_float ? DType::kF64 : view.dtype,
            shape,
            task::ContiguousStrides(shape)};
  });
}

void ShadowNodes::WriteView(const plan::View& view, const std::vector<std::byte>* exact,
                            uint32_t flags) {
  if (CountOf(view.shape) <= 0) return;
  const uint64_t base = DeviceAddress(buffers_, view.address);
  ForElements(view.shape, view.strides, view.strides, [&](int64_t i, int64_t at, int64_t) {
    const uint64_t address = base + static_cast<uint64_t>(at * SizeOf(view.dtype));
    const uint64_t bits = BitsAt(memory_.Host(address), view.dtype);
    Shadow shadow{LeafOf(shadows_.field(), ValueOfBits(view.dtype, bits)), flags};
    if (exact != nullptr && IsFloating(view.dtype)) {
      const bool has_elements = shadows_.field() != nullptr;
      const int64_t from = has_elements ? CountOf(view.shape) + i : i;
      std::memcpy(&shadow.exact, exact->data() + from * 8, sizeof shadow.exact);
      if (has_elements) shadow.exact = Field::Received(shadow.exact, call_.element_flags);
    }
    shadows_.Write(address, view.dtype, bits, shadow);
  });
}

namespace {

Json FieldJson(const engine::FieldOptions& options) {
  Json numbers = Json::array();
  for (const engine::FieldNumber& number : options.numbers) {
    numbers.push_back(
        {{"value", fmt::format("{:a}", number.value)}, {"p", number.p}, {"q", number.q}});
  }
  return {{"index", options.index}, {"seed", options.seed}, {"numbers", std::move(numbers)}};
}

}  // namespace

Status ShadowNodes::After(const plan::Operator& work, plan::OperatorRunner& operators) {
  const Field* field = shadows_.field();
  std::string problem = "it is too large";
  if (!call_.is_too_large) {
    const Json options = field != nullptr ? FieldJson(field->options()) : Json();
    const plan::Arithmetic arithmetic{.in_float64 = true,
                                      .field = field != nullptr ? &options : nullptr};
    TRY_ASSIGN(problem, operators.Run(call_.work, arithmetic, [&](int buffer) {
      return std::span(call_.memory[static_cast<size_t>(buffer)]);
    }));
  }
  if (!problem.empty()) {
    not_followed_ = fmt::format("PyTorch's operator {} ({})", work.name, problem);
  }
  size_t index = 0;
  plan::ForEachView(work, [&](const plan::View& view, bool is_written) {
    const std::vector<std::byte>& exact = call_.memory[index++];
    if (is_written) {
      WriteView(view, problem.empty() ? &exact : nullptr, problem.empty() ? call_.flags : kReset);
    }
  });
  call_ = {};
  return {};
}

std::vector<std::array<plan::Address, 3>> ShadowNodes::Products(const plan::Gemm& gemm) const {
  if (!gemm.pointers.empty()) return gemm.pointers;
  std::vector<std::array<plan::Address, 3>> products;
  products.reserve(static_cast<size_t>(gemm.batch));
  for (int64_t i = 0; i < gemm.batch; ++i) {
    products.push_back({Advance(gemm.a, i * gemm.stride_a, gemm.a_type),
                        Advance(gemm.b, i * gemm.stride_b, gemm.b_type),
                        Advance(gemm.c, i * gemm.stride_c, gemm.c_type)});
  }
  return products;
}

ShadowNodes::Matrix ShadowNodes::ReadMatrix(uint64_t address, DType dtype, int64_t rows,
                                            int64_t columns, int64_t ld, bool transposed) const {
  Matrix matrix;
  matrix.exact.resize(static_cast<size_t>(rows * columns));
  matrix.rows.assign(static_cast<size_t>(rows), 0);
  matrix.columns.assign(static_cast<size_t>(columns), 0);
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < columns; ++j) {
      const int64_t element = transposed ? i * ld + j : j * ld + i;
      const Shadow shadow =
          ReadElement(address + static_cast<uint64_t>(element * SizeOf(dtype)), dtype);
      matrix.exact[static_cast<size_t>(i * columns + j)] = shadow.exact;
      matrix.rows[static_cast<size_t>(i)] |= shadow.flags;
      matrix.columns[static_cast<size_t>(j)] |= shadow.flags;
    }
  }
  return matrix;
}

void ShadowNodes::Before(const plan::Gemm& gemm) {
  old_.clear();
  if (gemm.beta == 0 || gemm.m <= 0 || gemm.n <= 0 || gemm.batch > (1 << 20)) return;
  const __int128 span = static_cast<__int128>(gemm.n - 1) * gemm.ldc + gemm.m;
  if (gemm.ldc <= 0 || span > (int64_t{1} << 40)) return;
  for (const std::array<plan::Address, 3>& at : Products(gemm)) {
    const uint64_t c = DeviceAddress(buffers_, at[2]);
    const auto bytes = static_cast<uint64_t>(span) * static_cast<uint64_t>(SizeOf(gemm.c_type));
    if (!memory_.Contains(c, bytes)) return;  // the node reports this
    old_.push_back(ReadMatrix(c, gemm.c_type, gemm.m, gemm.n, gemm.ldc, false));
  }
}

void ShadowNodes::Multiply(const plan::Gemm& gemm, const std::array<plan::Address, 3>& at,
                           Matrix* old) const {
  const uint64_t c = DeviceAddress(buffers_, at[2]);
  const auto m = static_cast<size_t>(gemm.m), n = static_cast<size_t>(gemm.n),
             k = static_cast<size_t>(gemm.alpha == 0 ? 0 : gemm.k);
  Matrix a, b;
  if (k > 0) {
    a = ReadMatrix(DeviceAddress(buffers_, at[0]), gemm.a_type, gemm.m, gemm.k, gemm.lda,
                   gemm.transpose_a);
    b = ReadMatrix(DeviceAddress(buffers_, at[1]), gemm.b_type, gemm.k, gemm.n, gemm.ldb,
                   gemm.transpose_b);
  }
  // Row-major matrices are transposed column-major ones, so the product is that of B and A.
  std::vector<double> product(m * n, 0.0);
  const Field* field = shadows_.field();
  if (field != nullptr) {
    for (size_t i = 0; i < m; ++i) {
      for (size_t j = 0; j < n; ++j) {
        double& sum = product[i * n + j];
        for (size_t l = 0; l < k; ++l) {
          sum = field->Add(sum, field->Mul(a.exact[i * k + l], b.exact[l * n + j]));
        }
      }
    }
  } else if (k > 0) {
    GemmProblem problem;
    problem.m = gemm.n;
    problem.n = gemm.m;
    problem.k = gemm.k;
    problem.a = {reinterpret_cast<const std::byte*>(b.exact.data()), DType::kF64, gemm.n, false};
    problem.b = {reinterpret_cast<const std::byte*>(a.exact.data()), DType::kF64, gemm.k, false};
    problem.c = reinterpret_cast<std::byte*>(product.data());
    problem.c_type = DType::kF64;
    problem.ldc = gemm.n;
    problem.compute = GemmCompute::kF64;
    MultiplyMatrices(problem, &pool_);
  }
  for (size_t i = 0; i < m; ++i) {
    for (size_t j = 0; j < n; ++j) {
      uint32_t flags = k > 0 ? a.rows[i] | b.columns[j] : 0;
      const auto scaled = [&](double factor, double number) {
        return field == nullptr ? factor * number : field->Mul(field->Leaf(factor), number);
      };
      double exact = scaled(gemm.alpha, product[i * n + j]);
      if (old != nullptr) {
        const double before = scaled(gemm.beta, old->exact[i * n + j]);
        exact = field == nullptr ? exact + before : field->Add(exact, before);
        flags |= old->rows[i];
      }
      const uint64_t element = j * static_cast<uint64_t>(gemm.ldc) + i;
      const uint64_t address = c + element * static_cast<uint64_t>(SizeOf(gemm.c_type));
      shadows_.Write(address, gemm.c_type, BitsAt(memory_.Host(address), gemm.c_type),
                     {exact, flags});
    }
  }
}

void ShadowNodes::After(const plan::Gemm& gemm) {
  if (gemm.m <= 0 || gemm.n <= 0) return;
  const std::vector<std::array<plan::Address, 3>> products = Products(gemm);
  const double work = static_cast<double>(gemm.m) * static_cast<double>(gemm.n) *
                      static_cast<double>(std::max<int64_t>(gemm.k, 1)) *
                      static_cast<double>(products.size());
  for (size_t p = 0; p < products.size(); ++p) {
    if (work <= kMostShadowProducts) {  // else: not followed
      Multiply(gemm, products[p], p < old_.size() ? &old_[p] : nullptr);
      continue;
    }
    const uint64_t c = DeviceAddress(buffers_, products[p][2]);
    for (int64_t j = 0; j < gemm.n; ++j) {
      for (int64_t i = 0; i < gemm.m; ++i) {
        const uint64_t address =
            c + static_cast<uint64_t>((j * gemm.ldc + i) * SizeOf(gemm.c_type));
        const uint64_t bits = BitsAt(memory_.Host(address), gemm.c_type);
        shadows_.Write(address, gemm.c_type, bits,
                       {LeafOf(shadows_.field(), ValueOfBits(gemm.c_type, bits)), kReset});
      }
    }
  }
  if (work > kMostShadowProducts) {
    not_followed_ = "a matrix product of more than 2e10 multiplications";
  }
  old_.clear();
}

void ShadowNodes::Extract(const plan::View& view, engine::OutputTensor* output) const {
  const int64_t count = CountOf(view.shape);
  if (count <= 0) return;
  (shadows_.field() != nullptr ? output->elements.resize(static_cast<size_t>(count))
                               : output->shadow.resize(static_cast<size_t>(count)));
  output->shadow_state.assign(static_cast<size_t>(count), 0);
  const uint64_t base = DeviceAddress(buffers_, view.address);
  std::array<int64_t, ShadowSites::kMost> sites{};
  const uint32_t doubt = shadows_.places_in_doubt() ? kDecision : 0;
  ForElements(view.shape, view.strides, view.strides, [&](int64_t i, int64_t at, int64_t) {
    const uint64_t address = base + static_cast<uint64_t>(at * SizeOf(view.dtype));
    const Shadow shadow = ReadElement(address, view.dtype);
    if (shadows_.field() != nullptr) {
      output->elements[static_cast<size_t>(i)] = std::bit_cast<uint64_t>(shadow.exact);
    } else {
      output->shadow[static_cast<size_t>(i)] = shadow.exact;
    }
    output->shadow_state[static_cast<size_t>(i)] = static_cast<uint8_t>(
        ((shadow.flags & kReset) != 0 ? engine::kShadowReset : 0) |
        ((shadow.flags & kSmall) != 0 ? engine::kShadowSmall : 0) |
        (((shadow.flags | doubt) & kDecision) != 0 ? engine::kShadowBranch : 0));
    for (uint32_t rest = shadow.flags >> ShadowSites::kShift; rest != 0; rest &= rest - 1) {
      ++sites[static_cast<size_t>(__builtin_ctz(rest))];
    }
  });
  output->shadow_causes = CausesOf(shadows_.sites(), sites);
}

}  // namespace cupel::emu
