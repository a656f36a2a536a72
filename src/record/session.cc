// SPDX-License-Identifier: Apache-2.0
#include "record/session.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <iterator>
#include <utility>

#include "base/demangle.h"
#include "ptx/parser.h"
#include "record/refuse.h"

namespace cupel::record {
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
  std::pair key(kernel.image, kernel.name);
  Kernel& added = kernels_.insert_or_assign(std::move(key), std::move(kernel)).first->second;
  by_function_[&added] = &added;  // the handle that __cudaGetKernel returns
}

void** Session::RegisterFatBinary(const void* data) {
  if (images == 1 && !handles_.empty()) return &handles_.front();
  if (handles_.size() >= static_cast<size_t>(images)) {
    RefuseUnsupported("unsupported_api",
                      "host code registers device code that nvcc did not compile",
                      "__cudaRegisterFatBinary");
  }
  fat_binaries_.push_back(data);
  return &handles_.emplace_back(nullptr);
}

void Session::CheckFatBinaries() const {
  // The linker puts the code of the files into one section, in their order.
  const bool are_in_order =
      std::is_sorted(fat_binaries_.begin(), fat_binaries_.end(), [](const void* a, const void* b) {
        return reinterpret_cast<uint64_t>(a) < reinterpret_cast<uint64_t>(b);
      });
  if (images == 1 || (are_in_order && fat_binaries_.size() == static_cast<size_t>(images))) return;
  RefuseUnsupported(
      "unsupported_api",
      "host code changes the order in which the device code of its files is registered",
      "__cudaRegisterFatBinary");
}

int Session::ImageOf(void** handle) const {
  if (images == 1) return 0;
  for (size_t i = 0; i < handles_.size(); ++i) {
    if (handle == &handles_[i]) return static_cast<int>(i);
  }
  RefuseUnsupported("unsupported_api", "host code registers a kernel or variable without its code",
                    "__cudaRegisterFunction");
}

void Session::RegisterFunction(void** handle, const void* host, const char* name) {
  const auto it = kernels_.find({ImageOf(handle), name});
  if (it != kernels_.end()) by_function_[host] = &it->second;
}

void Session::RegisterVariable(void** handle, const void* host, const char* name, uint64_t bytes,
                               bool constant) {
  Allocation* allocation = memory.Allocate(bytes, Origin::kSymbol);
  if (allocation == nullptr) return;
  allocation->symbol = name;
  allocation->image = ImageOf(handle);
  allocation->constant = constant;
  symbols_[host] = allocation->id;
}

Kernel* Session::FindKernel(const void* function) {
  const auto it = by_function_.find(function);
  return it == by_function_.end() ? nullptr : it->second;
}

const Allocation* Session::FindSymbol(const void* host) const {
  const auto it = symbols_.find(host);
  return it == symbols_.end() ? nullptr : memory.ById(it->second);
}

std::vector<uint64_t> Session::BeginCall(uint64_t seed,
                                         const std::vector<ArgumentStorage>& arguments,
                                         bool other_stream) {
  memory.BeginCall(seed);
  current_stream = other_stream ? streams.CreateStream(/*blocking=*/false, 0) : kLegacyStream;
  streams.BeginCall(current_stream);
  nodes_.clear();
  after_start_.clear();
  uploaded_bytes_ = 0;
  async_reads_.clear();
  argument_count_ = arguments.size();
  failed_launch.reset();
  read_values = false;
  last_error = 0;
  driver_problem.clear();
  std::vector<uint64_t> addresses;
  for (size_t i = 0; i < arguments.size(); ++i) {
    Allocation* allocation = memory.Allocate(arguments[i].bytes, Origin::kArgument);
    if (allocation == nullptr) {
      Refuse("host_exception", "the arguments do not fit in the device's memory");
    }
    allocation->argument = static_cast<int>(i);
    allocation->value = arguments[i].value;
    allocation->value_at = arguments[i].value_at;
    allocation->is_integers = arguments[i].is_integers;
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
    return "kernel " + BriefName(ptx::Demangle(launch->kernel));
  }
  if (const auto* call = std::get_if<plan::Operator>(&node.work)) return call->name;
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

void Session::NoteAsyncRead(const void* from, uint64_t bytes) {
  const auto address = reinterpret_cast<uint64_t>(from);
  const auto after = pinned.upper_bound(address);
  if (after == pinned.begin()) return;  // unpinned memory is read before the runtime returns
  const auto& [base, size] = *std::prev(after);
  if (address - base >= size) return;
  const auto* data = static_cast<const char*>(from);
  async_reads_.push_back({data, std::string(data, bytes)});
}

void Session::CheckAsyncReads() const {
  for (const AsyncRead& read : async_reads_) {
    if (std::memcmp(read.from, read.bytes.data(), read.bytes.size()) == 0) continue;
    Refuse("unordered_work",
           "host code changes pinned memory while a cudaMemcpyAsync may still read it: wait for "
           "the stream first, or use other memory");
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
  CheckAsyncReads();
  PrependKeptWrites(outputs);
  RememberKeptWrites();
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
        buffer.image = allocation.image;
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
  for (plan::Node& node : nodes_) {
    std::visit([&](auto& work) { plan::ForEachAddress(work, number); }, node.work);
  }
  for (plan::View& view : outputs) number(view.address);
  plan.nodes = std::move(nodes_);
  plan.prepared = prepared_;
  plan.outputs = std::move(outputs);
  plan.device = device.name;
  nodes_.clear();
  return plan;
}

}  // namespace cupel::record
