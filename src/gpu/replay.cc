// SPDX-License-Identifier: Apache-2.0
#include "gpu/replay.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <utility>
#include <vector>

#include "base/demangle.h"
#include "gpu/blas.h"
#include "gpu/copy_kernel.h"
#include "gpu/operators.h"
#include "gpu/tensor_map.h"
#include "plan/tensor_map_json.h"

namespace cupel::gpu {
namespace {

using records::Finding;

// CUfunction_attribute, CUlaunchAttributeID
constexpr int kNonPortableCluster = 14;
constexpr int kCooperative = 2, kClusterDimension = 4;

Refusal Refuse(std::string code, std::string message, std::string kernel = {}) {
  Refusal refusal;
  Finding finding;
  finding.code = std::move(code);
  finding.kernel = std::move(kernel);
  finding.message = std::move(message);
  refusal.finding = std::move(finding);
  return refusal;
}

/// Bytes from the first element's start to the last one's end. nullopt on overflow or negative
/// strides.
std::optional<uint64_t> SpanOf(const plan::View& view) {
  __int128 last = 0;
  for (size_t d = 0; d < view.shape.size(); ++d) {
    if (view.shape[d] == 0) return 0;
    if (view.strides[d] < 0) return {};
    last += static_cast<__int128>(view.shape[d] - 1) * view.strides[d];
  }
  const __int128 bytes = (last + 1) * SizeOf(view.dtype);
  if (bytes > std::numeric_limits<int64_t>::max()) return {};
  return static_cast<uint64_t>(bytes);
}

/// The position of each parameter of `function` in `bytes`, the launch's parameters. Empty if the
/// driver cannot report them. Without places in the launch, they have the driver's distances.
std::vector<void*> ParametersOf(const Driver& driver, CuFunction function,
                                const plan::Launch& launch, std::string& bytes) {
  std::vector<void*> positions;
  if (driver.parameter_info == nullptr) return positions;
  size_t offset = 0, size = 0, first = 0;
  while (driver.parameter_info(function, positions.size(), &offset, &size) == 0) {
    const size_t number = positions.size();
    if (number == 0) first = offset;
    if (!launch.places.empty() && number >= launch.places.size()) return {};
    const size_t at = launch.places.empty() ? offset - first : launch.places[number];
    if (at > bytes.size() || size > bytes.size() - at) return {};
    positions.push_back(bytes.data() + at);
  }
  return positions;
}

}  // namespace

Result<Refusal> Replay::Enqueue(const plan::Node& node) {
  return std::visit([&](const auto& work) { return Run(work); }, node.work);
}

Result<Refusal> Replay::Enqueue(const plan::Plan& plan) { return Enqueue(std::span(plan.nodes)); }

Result<Refusal> Replay::EnqueuePrepared(const plan::Plan& plan) {
  return Enqueue(std::span(plan.nodes).first(static_cast<size_t>(plan.prepared)));
}

Result<Refusal> Replay::EnqueueCall(const plan::Plan& plan) {
  return Enqueue(std::span(plan.nodes).subspan(static_cast<size_t>(plan.prepared)));
}

Result<Refusal> Replay::Enqueue(std::span<const plan::Node> nodes) {
  for (const plan::Node& node : nodes) {
    TRY_ASSIGN(Refusal refusal, Enqueue(node));
    if (!refusal.ok()) return refusal;
  }
  return Refusal();
}

Refusal Replay::Outside(const plan::Address& address, uint64_t bytes, const char* who) const {
  if (bytes == 0 || memory_.Contains(address, bytes)) return {};
  const bool known =
      address.buffer >= 0 && static_cast<size_t>(address.buffer) < memory_.places().size();
  const std::string name =
      known ? memory_.places()[static_cast<size_t>(address.buffer)].name : "no buffer";
  return Refuse("out_of_bounds", fmt::format("{} of {} bytes at {} + {} exceeds the buffer.", who,
                                             bytes, name, address.offset));
}

template <typename Work>
Result<Refusal> Replay::Resolve(const Work& work, std::span<std::byte> bytes) const {
  const auto outside = [] {
    return Fail(ErrorCode::kInternal, "a pointer or a tensor map is outside its bytes");
  };
  if (!memory_.Relocate(work.relocations, bytes)) return outside();
  for (const plan::PlacedTensorMap& placed : work.tensor_maps) {
    const auto address = memory_.AddressOf(placed.address);
    DriverTensorMap map;
    if (!address || bytes.size() < map.bytes.size() ||
        placed.at > bytes.size() - map.bytes.size()) {
      return outside();
    }
    const CuResult code = EncodeTensorMap(device_.driver(), placed.map, *address, &map);
    if (code != 0) {
      return Refuse("illegal_launch",
                    fmt::format("The driver refused the tensor map of {}: {}.",
                                plan::Describe(placed.map), device_.driver().Describe(code)));
    }
    std::memcpy(bytes.data() + placed.at, map.bytes.data(), map.bytes.size());
  }
  return Refusal();
}

Result<Refusal> Replay::Run(const plan::Launch& launch) {
  const std::string kernel = Demangle(launch.kernel);
  const auto image = static_cast<size_t>(launch.image);
  const CuFunction function =
      image < modules_.size() ? modules_[image].Find(launch.kernel) : nullptr;
  if (function == nullptr) {
    Refusal refusal;
    refusal.unsupported =
        fmt::format("kernel {} is launched, but the image does not contain it", kernel);
    return refusal;
  }
  std::string parameters = launch.parameters;
  TRY_ASSIGN(Refusal unresolved, Resolve(launch, std::as_writable_bytes(std::span(parameters))));
  if (!unresolved.ok()) return unresolved;
  const Driver& driver = device_.driver();
  auto refused = [&](CuResult code) {
    return Refuse(
        "illegal_launch",
        fmt::format("The driver refused to launch {}x{}x{} blocks of {}x{}x{} threads with {} "
                    "bytes of dynamic shared memory: {}.",
                    launch.grid.x, launch.grid.y, launch.grid.z, launch.block.x, launch.block.y,
                    launch.block.z, launch.dynamic_shared, driver.Describe(code)),
        kernel);
  };
  CuLaunchConfig config;
  config.grid[0] = launch.grid.x, config.grid[1] = launch.grid.y, config.grid[2] = launch.grid.z;
  config.block[0] = launch.block.x, config.block[1] = launch.block.y;
  config.block[2] = launch.block.z;
  config.shared_bytes = launch.dynamic_shared;
  config.stream = device_.stream();
  std::array<CuLaunchAttribute, 2> attributes;
  if (launch.cooperative) {
    CuLaunchAttribute& attribute = attributes[config.attribute_count++];
    attribute.id = kCooperative;
    const int yes = 1;
    std::memcpy(attribute.value, &yes, sizeof yes);
  }
  if (launch.cluster.Count() > 1 || launch.lone_clusters) {
    CuLaunchAttribute& attribute = attributes[config.attribute_count++];
    attribute.id = kClusterDimension;
    const unsigned size[] = {launch.cluster.x, launch.cluster.y, launch.cluster.z};
    std::memcpy(attribute.value, size, sizeof size);
    if (launch.cluster.Count() > 8) driver.function_set(function, kNonPortableCluster, 1);
  }
  config.attributes = config.attribute_count > 0 ? attributes.data() : nullptr;
  // The recorder has checked that the host code opted in to this much shared memory.
  if (launch.dynamic_shared > 0) {
    const CuResult code =
        driver.function_set(function, kMaxDynamicShared, static_cast<int>(launch.dynamic_shared));
    if (code != 0) return refused(code);
  }
  // One by one if possible: a buffer of all parameters is wrong if the driver places the first one
  // after a gap, and cannot be captured in cooperative launches.
  std::vector<void*> one_by_one = ParametersOf(driver, function, launch, parameters);
  size_t bytes = parameters.size();
  // CU_LAUNCH_PARAM_BUFFER_POINTER, …_SIZE, …_END
  void* extra[] = {reinterpret_cast<void*>(1), parameters.data(), reinterpret_cast<void*>(2),
                   &bytes, nullptr};
  const CuResult code = one_by_one.empty()
                            ? driver.launch(&config, function, nullptr, extra)
                            : driver.launch(&config, function, one_by_one.data(), nullptr);
  return code == 0 ? Refusal{} : refused(code);
}

Result<Refusal> Replay::Run(const plan::Copy& copy) {
  Refusal refusal = Outside(copy.from, copy.bytes, "A copy");
  if (refusal.ok()) refusal = Outside(copy.to, copy.bytes, "A copy");
  if (!refusal.ok() || copy.bytes == 0) return refusal;
  const Driver& driver = device_.driver();
  TRY(driver.Check(driver.copy_across(*memory_.AddressOf(copy.to), *memory_.AddressOf(copy.from),
                                      copy.bytes, device_.stream()),
                   "copying on the GPU"));
  return refusal;
}

Result<Refusal> Replay::Run(const plan::Upload& upload) {
  Refusal refusal = Outside(upload.to, upload.bytes.size(), "A copy from the host");
  if (!refusal.ok() || upload.bytes.empty()) return refusal;
  std::string bytes = upload.bytes;
  TRY_ASSIGN(refusal, Resolve(upload, std::as_writable_bytes(std::span(bytes))));
  if (!refusal.ok()) return refusal;
  TRY(CopyIn(&upload, *memory_.AddressOf(upload.to), bytes));
  return refusal;
}

Status Replay::CopyIn(const void* node, CuPointer to, std::string_view bytes) {
  auto known = uploads_.find(node);
  if (known == uploads_.end()) {
    TRY_ASSIGN(HostBlock block,
               HostBlock::CopyOf(device_, std::as_bytes(std::span(bytes.data(), bytes.size()))));
    known = uploads_.emplace(node, std::move(block)).first;
  }
  const Driver& driver = device_.driver();
  return driver.Check(driver.copy_in(to, known->second.data(), bytes.size(), device_.stream()),
                      "copying to the GPU");
}

Result<Refusal> Replay::Run(const plan::Fill& fill) {
  const uint64_t bytes = fill.count * fill.pattern.size();
  Refusal refusal = Outside(fill.to, bytes, "A fill");
  if (!refusal.ok() || bytes == 0) return refusal;
  const CuPointer to = *memory_.AddressOf(fill.to);
  const Driver& driver = device_.driver();
  const CuStream stream = device_.stream();
  uint64_t word = 0;
  std::memcpy(&word, fill.pattern.data(), std::min(sizeof word, fill.pattern.size()));
  CuResult code = 0;
  switch (fill.pattern.size()) {
    case 1:
      code = driver.fill_8(to, static_cast<unsigned char>(word), fill.count, stream);
      break;
    case 2:
      code = driver.fill_16(to, static_cast<unsigned short>(word), fill.count, stream);
      break;
    case 4:
      code = driver.fill_32(to, static_cast<unsigned>(word), fill.count, stream);
      break;
    default: {  // a view that repeats one element
      if (word == (word & 0xffffffffu) * 0x1'0000'0001u) {
        code = driver.fill_32(to, static_cast<unsigned>(word), 2 * fill.count, stream);
        break;
      }
      std::string repeated(bytes, '\0');
      for (uint64_t i = 0; i < fill.count; ++i) std::memcpy(&repeated[8 * i], &word, 8);
      TRY(CopyIn(&fill, to, repeated));
    }
  }
  TRY(driver.Check(code, "filling memory"));
  return refusal;
}

namespace {

/// True if a copy moves one range of bytes as it is: equal layouts, in whatever order of the
/// dimensions, without gaps.
bool IsOneRange(const plan::CopyView& copy) {
  if (copy.from.dtype != copy.to.dtype) return false;
  std::vector<std::pair<int64_t, int64_t>> strides;  // and sizes
  for (size_t i = 0; i < copy.to.shape.size(); ++i) {
    if (copy.to.shape[i] == 1) continue;
    if (copy.from.strides[i] != copy.to.strides[i]) return false;
    strides.emplace_back(copy.to.strides[i], copy.to.shape[i]);
  }
  std::sort(strides.begin(), strides.end());
  int64_t expected = 1;
  for (const auto& [stride, size] : strides) {
    if (stride != expected) return false;
    expected *= size;
  }
  return true;
}

}  // namespace

Result<Refusal> Replay::Run(const plan::CopyView& copy) {
  const auto from = SpanOf(copy.from), to = SpanOf(copy.to);
  Refusal refusal;
  if (!from || !to) {
    refusal.unsupported = "cannot copy a view with negative strides";
    return refusal;
  }
  refusal = Outside(copy.from.address, *from, "A copy");
  if (refusal.ok()) refusal = Outside(copy.to.address, *to, "A copy");
  const uint64_t elements = plan::ElementsOf(copy.to);
  if (!refusal.ok() || elements == 0) return refusal;
  if (IsOneRange(copy)) {  // the driver copies faster than our kernel
    return Run(plan::Copy{copy.to.address, copy.from.address,
                          elements * static_cast<uint64_t>(SizeOf(copy.to.dtype))});
  }
  const std::string ptx = CopyKernelPtx(copy, "8.0", device_.Target());
  auto known = copies_.find(ptx);
  if (known == copies_.end()) {
    TRY_ASSIGN(Module module, Module::Load(device_, ptx, "cupel's own copy kernel"));
    known = copies_.emplace(ptx, std::move(module)).first;
  }
  CuPointer addresses[] = {*memory_.AddressOf(copy.to.address),
                           *memory_.AddressOf(copy.from.address)};
  void* parameters[] = {&addresses[0], &addresses[1]};
  CuLaunchConfig config;
  config.block[0] = 256;
  config.grid[0] = static_cast<unsigned>(std::min<uint64_t>((elements + 255) / 256, 1 << 16));
  config.stream = device_.stream();
  const Driver& driver = device_.driver();
  TRY(driver.Check(driver.launch(&config, known->second.Find(kCopyKernel), parameters, nullptr),
                   "launching cupel's own copy kernel"));
  return refusal;
}

Result<Refusal> Replay::Run(const plan::Operator& work) {
  Operators* operators = device_.operators();
  if (operators == nullptr) {
    return Fail(ErrorCode::kInternal, "a worker without PyTorch got a plan with its operators");
  }
  Refusal refusal;
  plan::ForEachView(work, [&](const plan::View& view, bool /*is_written*/) {
    if (!refusal.ok()) return;
    if (const auto bytes = SpanOf(view)) {
      refusal = Outside(view.address, *bytes, "An operator of PyTorch");
    } else {
      refusal.unsupported = "an operator on a view with negative strides";
    }
  });
  if (!refusal.ok()) return refusal;
  TRY_ASSIGN(const std::string problem, operators->Enqueue(work, memory_));
  if (problem.empty()) return refusal;
  return Refuse("operator_failed", fmt::format("PyTorch's {}: {}", work.name, problem));
}

Result<GemmAddresses> Replay::AddressesOf(const plan::Gemm& gemm) {
  if (gemm.pointers.empty()) {
    return GemmAddresses{*memory_.AddressOf(gemm.a), *memory_.AddressOf(gemm.b),
                         *memory_.AddressOf(gemm.c)};
  }
  const size_t count = gemm.pointers.size();
  auto known = pointers_.find(&gemm);
  if (known == pointers_.end()) {
    std::vector<CuPointer> pointers(3 * count);
    for (size_t i = 0; i < count; ++i) {
      for (size_t operand = 0; operand < 3; ++operand) {
        pointers[operand * count + i] = *memory_.AddressOf(gemm.pointers[i][operand]);
      }
    }
    TRY_ASSIGN(Block block, Block::Allocate(device_, pointers.size() * sizeof(CuPointer)));
    const Driver& driver = device_.driver();
    TRY(driver.Check(driver.copy_in_now(block.address(), pointers.data(), block.bytes()),
                     "copying pointers to the GPU"));
    known = pointers_.emplace(&gemm, std::move(block)).first;
  }
  const CuPointer at = known->second.address();
  const uint64_t bytes = count * sizeof(CuPointer);
  return GemmAddresses{at, at + bytes, at + 2 * bytes};
}

Result<Refusal> Replay::Run(const plan::Gemm& gemm) {
  TRY_ASSIGN(const GemmAddresses addresses, AddressesOf(gemm));
  Refusal refusal;
  auto blas = device_.blas();
  if (!blas && blas.error().code == ErrorCode::kBusy) return tl::unexpected(blas.error());
  const Status done =
      blas ? (*blas)->Enqueue(gemm, addresses) : Status(tl::unexpected<Error>(blas.error()));
  if (done) return refusal;
  if (blas && done.error().code != ErrorCode::kUnsupported) return tl::unexpected(done.error());
  refusal.unsupported = done.error().message;
  return refusal;
}

}  // namespace cupel::gpu
