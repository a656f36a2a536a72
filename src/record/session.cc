// SPDX-License-Identifier: Apache-2.0
#include "record/session.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "plan/limits.h"
#include "ptx/parser.h"
#include "record/refuse.h"

namespace cupel::record {
namespace {

/// Base64 and JSON around it must fit a frame.
constexpr size_t kMaxUploadBytes = 32u << 20;
constexpr size_t kMaxCallNodes = 100'000;

/// Calls `visit` with every address of a node.
template <typename Visit>
void ForEachAddress(plan::Node& node, Visit visit) {
  const auto relocations = [&](std::vector<plan::Relocation>& list) {
    for (plan::Relocation& relocation : list) visit(relocation.target);
  };
  if (auto* launch = std::get_if<plan::Launch>(&node.work)) {
    relocations(launch->relocations);
  } else if (auto* copy = std::get_if<plan::Copy>(&node.work)) {
    visit(copy->from);
    visit(copy->to);
  } else if (auto* upload = std::get_if<plan::Upload>(&node.work)) {
    visit(upload->to);
    relocations(upload->relocations);
  } else if (auto* fill = std::get_if<plan::Fill>(&node.work)) {
    visit(fill->to);
  } else if (auto* views = std::get_if<plan::CopyView>(&node.work)) {
    visit(views->from.address);
    visit(views->to.address);
  } else if (auto* gemm = std::get_if<plan::Gemm>(&node.work)) {
    for (plan::Address* address : {&gemm->a, &gemm->b, &gemm->c}) visit(*address);
    for (auto& triple : gemm->pointers) {
      for (plan::Address& address : triple) visit(address);
    }
  }
}

}  // namespace

Session& CurrentSession() {
  static Session session;
  return session;
}

RawView ViewOf(const CupelTensor& tensor) {
  RawView view;
  view.dtype = static_cast<DType>(tensor.dtype);
  view.address = tensor.storage +
                 static_cast<uint64_t>(tensor.offset) * static_cast<uint64_t>(SizeOf(view.dtype));
  const int dims = std::clamp(tensor.ndim, 0, CUPEL_MAX_DIMS);
  view.shape.assign(tensor.sizes, tensor.sizes + dims);
  view.strides.assign(tensor.strides, tensor.strides + dims);
  return view;
}

void Session::AddKernel(Kernel kernel) {
  std::string name = kernel.name;
  kernels_.insert_or_assign(std::move(name), std::move(kernel));
}

void Session::RegisterFunction(const void* host, const char* name) {
  const auto it = kernels_.find(std::string_view(name));
  if (it != kernels_.end()) by_function_[host] = &it->second;
}

void Session::RegisterVariable(const void* host, const char* name, uint64_t bytes, bool constant) {
  Allocation* allocation = memory.Allocate(bytes, Origin::kSymbol);
  if (allocation == nullptr) return;
  allocation->symbol = name;
  allocation->constant = constant;
  symbols_[host] = allocation->id;
}

Kernel* Session::FindKernel(const void* function) {
  const auto it = by_function_.find(function);
  if (it != by_function_.end()) return it->second;
  for (auto& [name, kernel] : kernels_) {
    if (&kernel == function) return &kernel;
  }
  return nullptr;
}

const Allocation* Session::FindSymbol(const void* host) const {
  const auto it = symbols_.find(host);
  return it == symbols_.end() ? nullptr : memory.ById(it->second);
}

std::vector<uint64_t> Session::BeginCall(uint64_t seed,
                                         const std::vector<ArgumentStorage>& arguments) {
  memory.BeginCall(seed);
  streams.BeginCall();
  nodes_.clear();
  after_start_.clear();
  uploaded_bytes_ = 0;
  argument_count_ = arguments.size();
  failed_launch.reset();
  last_error = 0;
  current_stream = 0;
  std::vector<uint64_t> addresses;
  for (size_t i = 0; i < arguments.size(); ++i) {
    Allocation* allocation = memory.Allocate(arguments[i].bytes, Origin::kArgument);
    if (allocation == nullptr) {
      Refuse("host_exception", "the arguments do not fit the device's memory");
    }
    allocation->argument = static_cast<int>(i);
    allocation->value = arguments[i].value;
    allocation->value_at = arguments[i].value_at;
    addresses.push_back(allocation->base);
  }
  return addresses;
}

void Session::Submit(uint64_t stream, RawWork work) {
  if (!streams.Exists(stream)) {
    Refuse("host_exception", "host code used a stream that does not exist");
  }
  if (const auto capture = streams.CaptureOf(stream)) {
    CapturedGraph& graph = Graph(*capture);
    graph.works.push_back(std::move(work));
    graph.after.push_back(streams.CaptureDepend(stream));
    streams.CaptureDone(stream, static_cast<int>(graph.works.size()) - 1);
    return;
  }
  const int node = Issue(work, streams.Depend(stream));
  streams.Done(stream, {node});
}

void Session::LaunchGraph(const CapturedGraph& graph, uint64_t stream) {
  const Frontier before = streams.Depend(stream);
  std::vector<int> issued;
  for (size_t i = 0; i < graph.works.size(); ++i) {
    Frontier after;
    for (const int node : graph.after[i]) after.push_back(issued[static_cast<size_t>(node)]);
    issued.push_back(Issue(graph.works[i], after.empty() ? before : after));
  }
  Frontier ends;
  for (const int node : graph.ends) ends.push_back(issued[static_cast<size_t>(node)]);
  std::sort(ends.begin(), ends.end());
  streams.Done(stream, std::move(ends));
}

int Session::Issue(const RawWork& work, const Frontier& after) {
  if (nodes_.size() >= kMaxCallNodes) {
    RefuseUnsupported("unsupported_api",
                      fmt::format("one call issues more than {} pieces of work", kMaxCallNodes));
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
                          {}};
    resolved.relocations = Relocate(resolved.bytes, "bytes copied from the host");
    node.work = std::move(resolved);
  } else if (const auto* fill = std::get_if<RawFill>(&work)) {
    node.work = plan::Fill{Resolve(fill->to, "a fill"), fill->pattern, fill->count};
  } else if (const auto* views = std::get_if<RawCopyView>(&work)) {
    node.work = plan::CopyView{Resolve(views->to, "a copy"), Resolve(views->from, "a copy")};
  } else if (const auto* gemm = std::get_if<RawGemm>(&work)) {
    node.work = Resolve(*gemm);
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
             fmt::format("{} names host memory where device memory is needed", what));
    }
    RefuseUnsupported("unsupported_api",
                      fmt::format("{} lets the GPU use pinned host memory", what));
  }
  const auto hit = memory.Find(address);
  if (!hit) {
    Refuse("impure", fmt::format("{} uses a device address of memory that is no longer allocated: "
                                 "host code kept it from an earlier call",
                                 what));
  }
  if (!hit->allocation->live) {
    Refuse("freed_memory", fmt::format("{} uses device memory that host code has freed", what));
  }
  return {hit->allocation->id, hit->offset};
}

std::vector<plan::Relocation> Session::Relocate(std::string& bytes, const std::string& what) {
  std::vector<plan::Relocation> relocations;
  for (size_t at = 0; at + 8 <= bytes.size(); at += 8) {
    uint64_t word = 0;
    std::memcpy(&word, bytes.data() + at, 8);
    if (memory.InRange(word)) {
      const std::string where = fmt::format("{} (bytes {} to {})", what, at, at + 8);
      relocations.push_back({static_cast<uint32_t>(at), Resolve(word, where)});
      std::memset(bytes.data() + at, 0, 8);
    } else if (!pinned.empty()) {
      const auto after = pinned.upper_bound(word);
      if (after == pinned.begin()) continue;
      const auto& [base, size] = *std::prev(after);
      if (word - base < size) {
        RefuseUnsupported("unsupported_api",
                          fmt::format("{} holds a pointer to pinned host memory", what));
      }
    }
  }
  return relocations;
}

plan::View Session::Resolve(const RawView& view, std::string_view what) {
  return {Resolve(view.address, what), view.dtype, view.shape, view.strides};
}

plan::Launch Session::Resolve(const RawLaunch& raw) {
  plan::Launch launch;
  launch.kernel = raw.kernel->name;
  launch.grid = raw.grid;
  launch.block = raw.block;
  launch.cluster = raw.cluster;
  launch.dynamic_shared = raw.dynamic_shared;
  launch.cooperative = raw.cooperative;
  launch.parameters = raw.parameters;
  const std::string& mask = raw.kernel->read_mask;
  for (size_t i = 0; i < mask.size() && i < launch.parameters.size(); ++i) {
    if (mask[i] == 0) launch.parameters[i] = 0;
  }
  launch.relocations =
      Relocate(launch.parameters, fmt::format("a parameter of {}", ptx::Demangle(launch.kernel)));
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
  if (hit && hit->allocation->live && !hit->allocation->value.empty() &&
      static_cast<uint64_t>(hit->offset) == hit->allocation->value_at &&
      bytes == hit->allocation->value.size()) {
    std::memcpy(to, hit->allocation->value.data(), bytes);
    return;
  }
  std::string where;
  if (hit && hit->allocation->origin == Origin::kArgument) {
    where = fmt::format("argument {} + {} bytes", hit->allocation->argument, hit->offset);
  }
  Refuse("reads_device_memory",
         fmt::format("host code reads {} bytes of device memory{} ({}); only one-element arguments "
                     "have a value on the host",
                     bytes, where.empty() ? "" : ", " + where, api),
         where.empty() ? api : where);
}

plan::View Session::OutputView(const CupelTensor& tensor, size_t index) {
  const std::string where = fmt::format("output {}", index);
  if (tensor.device != CUPEL_CUDA) {
    Refuse("wrong_return", "the function returned a tensor that is not on the GPU", where);
  }
  const RawView view = ViewOf(tensor);
  if (view.address == 0) return {{-1, 0}, view.dtype, view.shape, view.strides};
  return Resolve(view, where);
}

std::string Session::NameOf(const plan::Node& node) const {
  if (const auto* launch = std::get_if<plan::Launch>(&node.work)) {
    return "kernel " + ptx::Demangle(launch->kernel);
  }
  constexpr const char* kNames[] = {"",       "a copy", "a copy from the host",
                                    "a fill", "a copy", "a cuBLAS call"};
  return kNames[node.work.index()];
}

void Session::CheckOrdered() const {
  std::vector<bool> seen(nodes_.size());
  for (const int node : streams.End()) {
    if (node != kStart) seen[static_cast<size_t>(node)] = true;
  }
  for (size_t i = nodes_.size(); i-- > 0;) {
    if (!seen[i]) {
      Refuse("unordered_work",
             fmt::format("{} runs on a stream that the caller's next work does not wait for",
                         NameOf(nodes_[i])),
             NameOf(nodes_[i]));
    }
    for (const int before : nodes_[i].after) seen[static_cast<size_t>(before)] = true;
  }
  for (size_t i = 0; i < nodes_.size(); ++i) {
    if (!after_start_[i]) {
      Refuse("unordered_work",
             fmt::format("{} runs on a stream that does not wait for the caller's earlier work, "
                         "which writes the arguments",
                         NameOf(nodes_[i])),
             NameOf(nodes_[i]));
    }
  }
}

plan::Plan Session::EndCall(std::vector<plan::View> outputs) {
  if (failed_launch) {
    Refuse("illegal_launch", failed_launch->message, "kernel " + failed_launch->kernel);
  }
  if (streams.AnyCapture()) {
    Refuse("unordered_work", "the function returned while a stream was still being captured");
  }
  CheckOrdered();
  PrependConstants();
  RememberConstants();
  plan::Plan plan;
  std::map<int, int> index_of;
  const auto add = [&](const Allocation& allocation) {
    plan::Buffer buffer;
    buffer.bytes = allocation.bytes;
    switch (allocation.origin) {
      case Origin::kArgument:
        buffer.kind = plan::BufferKind::kArgument;
        buffer.argument = allocation.argument;
        break;
      case Origin::kSymbol:
        buffer.kind = plan::BufferKind::kSymbol;
        buffer.symbol = allocation.symbol;
        break;
      case Origin::kTensor:
      case Origin::kMalloc:
        buffer.kind = allocation.live ? plan::BufferKind::kWorkspace : plan::BufferKind::kTemporary;
        break;
    }
    index_of[allocation.id] = static_cast<int>(plan.buffers.size());
    plan.buffers.push_back(std::move(buffer));
  };
  for (size_t i = 0; i < argument_count_; ++i) add(*memory.ByArgument(static_cast<int>(i)));
  const auto number = [&](plan::Address& address) {
    if (address.buffer < 0) return;
    if (!index_of.contains(address.buffer)) add(*memory.ById(address.buffer));
    address.buffer = index_of.at(address.buffer);
  };
  for (plan::Node& node : nodes_) ForEachAddress(node, number);
  for (plan::View& view : outputs) number(view.address);
  plan.nodes = std::move(nodes_);
  plan.outputs = std::move(outputs);
  plan.device = device.name;
  nodes_.clear();
  return plan;
}

}  // namespace cupel::record
