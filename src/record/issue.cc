// Translates work with fake addresses into plan nodes with (buffer, offset) relocations.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <cstring>
#include <iterator>
#include <span>
#include <string>
#include <utility>

#include "base/demangle.h"
#include "ptx/parser.h"
#include "record/refuse.h"
#include "record/session.h"

namespace cupel::record {
namespace {

/// The uploads, as Base64 in JSON, must fit in one frame.
constexpr size_t kMaxUploadBytes = 32u << 20;
constexpr size_t kMaxCallNodes = 100'000;

}  // namespace

int Session::Issue(const RawWork& work, const Frontier& after) {
  if (nodes_.size() >= kMaxCallNodes) {
    RefuseUnsupported("unsupported_api",
                      fmt::format("one call issues more than {} operations", kMaxCallNodes));
  }
  plan::Node node;
  if (const auto* launch = std::get_if<RawLaunch>(&work)) {
    node.work = Resolve(*launch);
  } else if (const auto* copy = std::get_if<RawCopy>(&work)) {
    node.work = plan::Copy{Resolve(copy->to, "a copy"), Resolve(copy->from, "a copy"), copy->bytes};
  } else if (const auto* upload = std::get_if<RawUpload>(&work)) {
    uploaded_bytes_ += upload->bytes;
    if (uploaded_bytes_ > kMaxUploadBytes) {
      RefuseUnsupported("unsupported_api", "one call copies more than 32 MiB from host memory");
    }
    plan::Upload resolved{Resolve(upload->to, "a copy from the host"),
                          std::string(static_cast<const char*>(upload->source), upload->bytes),
                          {},
                          {}};
    Relocate(resolved, resolved.bytes, "bytes copied from the host");
    node.work = std::move(resolved);
  } else if (const auto* fill = std::get_if<RawFill>(&work)) {
    node.work = plan::Fill{Resolve(fill->to, "a fill"), fill->pattern, fill->count};
  } else if (const auto* views = std::get_if<RawCopyView>(&work)) {
    node.work = plan::CopyView{Resolve(views->to, "a copy"), Resolve(views->from, "a copy")};
  } else if (const auto* gemm = std::get_if<RawGemm>(&work)) {
    node.work = Resolve(*gemm);
  } else if (const auto* call = std::get_if<RawOperator>(&work)) {
    plan::Operator resolved = call->work;
    plan::ForEachView(resolved, [&](plan::View& view, bool /*is_written*/) {
      view.address = Resolve(static_cast<uint64_t>(view.address.offset), resolved.name);
    });
    node.work = std::move(resolved);
  }
  bool after_start = false;
  for (const int before : after) {
    after_start = after_start || before == kStart || after_start_[static_cast<size_t>(before)];
    if (before != kStart) node.after.push_back(before);
  }
  nodes_.push_back(std::move(node));
  after_start_.push_back(after_start);
  return static_cast<int>(nodes_.size()) - 1;
}

plan::Address Session::Resolve(uint64_t address, std::string_view what) {
  if (address == 0) return {-1, 0};
  if (!memory.InRange(address)) {
    if (pinned.empty()) {
      Refuse("host_exception",
             fmt::format("{} uses a host pointer where a device pointer is needed", what));
    }
    RefuseUnsupported("unsupported_api",
                      fmt::format("{} makes the GPU access pinned host memory", what));
  }
  const auto hit = memory.Find(address);
  if (!hit) {
    Refuse("impure",
           fmt::format("{} uses the address of device memory that is no longer allocated: host "
                       "code kept it from an earlier call, or left a structure uninitialised "
                       "(initialise it with {{}})",
                       what));
  }
  if (!hit->allocation->live) {
    Refuse("freed_memory", fmt::format("{} uses device memory that host code has freed", what));
  }
  return {hit->allocation->id, hit->offset};
}

template <typename Work>
void Session::Relocate(Work& work, std::string& bytes, const std::string& what) {
  const auto place = [&](size_t at, size_t size) {
    std::memset(bytes.data() + at, 0, size);
    return static_cast<uint32_t>(at);
  };
  for (size_t at = 0; at + 8 <= bytes.size(); at += 8) {
    if (const auto map = plan::DecodeTensorMap(std::as_bytes(std::span(bytes).subspan(at)));
        map && memory.InRange(map->address)) {
      const plan::Address address =
          Resolve(map->address, fmt::format("a tensor map in {} (byte {})", what, at));
      work.tensor_maps.push_back({place(at, plan::kTensorMapBytes), address, map->map});
      at += plan::kTensorMapBytes - 8;
      continue;
    }
    uint64_t word = 0;
    std::memcpy(&word, bytes.data() + at, 8);
    if (memory.InRange(word)) {
      const plan::Address target =
          Resolve(word, fmt::format("{} (bytes {} to {})", what, at, at + 8));
      work.relocations.push_back({place(at, 8), target});
    } else if (!pinned.empty()) {
      const auto after = pinned.upper_bound(word);
      if (after == pinned.begin()) continue;
      const auto& [base, size] = *std::prev(after);
      if (word - base < size) {
        RefuseUnsupported("unsupported_api",
                          fmt::format("{} contains a pointer to pinned host memory", what));
      }
    }
  }
}

plan::View Session::Resolve(const RawView& view, std::string_view what) {
  return {Resolve(view.address, what), view.dtype, view.shape, view.strides};
}

plan::Launch Session::Resolve(const RawLaunch& raw) {
  plan::Launch launch;
  launch.kernel = raw.kernel->name;
  launch.image = raw.kernel->image;
  launch.grid = raw.grid;
  launch.block = raw.block;
  launch.cluster = raw.cluster;
  launch.dynamic_shared = raw.dynamic_shared;
  launch.cooperative = raw.cooperative;
  launch.early = raw.early;
  launch.lone_clusters = raw.lone_clusters;
  launch.parameters = raw.parameters;
  const std::string& mask = raw.kernel->read_mask;
  for (size_t i = 0; i < mask.size() && i < launch.parameters.size(); ++i) {
    if (mask[i] == 0) launch.parameters[i] = 0;
  }
  Relocate(launch, launch.parameters,
           fmt::format("a parameter of {}", BriefName(ptx::Demangle(launch.kernel))));
  if (!launch.tensor_maps.empty()) {
    for (const Kernel::Param& parameter : raw.kernel->params)
      launch.places.push_back(parameter.offset);
  }
  return launch;
}

plan::Gemm Session::Resolve(const RawGemm& raw) {
  plan::Gemm gemm = raw.gemm;
  if (raw.c_array == 0) {
    gemm.a = Resolve(raw.a, "a cuBLAS call");
    gemm.b = Resolve(raw.b, "a cuBLAS call");
    gemm.c = Resolve(raw.c, "a cuBLAS call");
    return gemm;
  }
  const auto a = ReadPointerArray(raw.a_array, gemm.batch);
  const auto b = ReadPointerArray(raw.b_array, gemm.batch);
  const auto c = ReadPointerArray(raw.c_array, gemm.batch);
  for (size_t i = 0; i < c.size(); ++i) gemm.pointers.push_back({a[i], b[i], c[i]});
  return gemm;
}

std::vector<plan::Address> Session::ReadPointerArray(uint64_t array, int64_t count) {
  const plan::Address at = Resolve(array, "an array of pointers given to cuBLAS");
  std::vector<plan::Address> pointers;
  for (auto node = nodes_.rbegin(); node != nodes_.rend(); ++node) {
    const auto* upload = std::get_if<plan::Upload>(&node->work);
    if (upload == nullptr || upload->to.buffer != at.buffer) continue;
    for (const plan::Relocation& relocation : upload->relocations) {
      const int64_t offset = upload->to.offset + relocation.at;
      if (offset >= at.offset && offset < at.offset + 8 * count) {
        pointers.push_back(relocation.target);
      }
    }
    break;
  }
  if (static_cast<int64_t>(pointers.size()) != count) {
    RefuseUnsupported("unsupported_api",
                      "a batched cuBLAS call reads device pointers that were not copied from the "
                      "host in the same call");
  }
  return pointers;
}

void Session::ReadDevice(uint64_t address, uint64_t bytes, void* to, std::string_view api) {
  const auto hit = memory.Find(address);
  if (hit && hit->allocation->live && hit->offset >= 0) {
    const std::string& value = hit->allocation->value;
    const uint64_t begin = static_cast<uint64_t>(hit->offset) - hit->allocation->value_at;
    if (begin <= value.size() && bytes <= value.size() - begin && bytes > 0) {
      std::memcpy(to, value.data() + begin, bytes);
      read_values = true;
      return;
    }
  }
  std::string where;
  if (hit && hit->allocation->origin == Origin::kArgument) {
    where = fmt::format("argument {} + {} bytes", hit->allocation->argument, hit->offset);
  }
  // Honest code reads integers (lengths, offsets), of which there may be too many.
  const bool is_honest = hit && hit->allocation->live && hit->allocation->is_integers;
  (is_honest ? RefuseUnsupported : Refuse)(
      "reads_device_memory",
      fmt::format("host code reads {} bytes of device memory{} ({}); it can read only the "
                  "values of one-element arguments, and of at most 1024 integers",
                  bytes, where.empty() ? "" : ", " + where, api),
      where.empty() ? api : where);
}

}  // namespace cupel::record
