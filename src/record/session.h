// The state of the recorder child, which the stand-in runtime's functions share. One per process
// (CurrentSession()), because the C functions that candidates call have no context parameter.
// Single-threaded: the sandbox allows no second thread.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cupel/abi.h"
#include "device/device.h"
#include "plan/plan.h"
#include "record/address_space.h"
#include "record/streams.h"
#include "record/work.h"

namespace cupel::record {

/// A storage of a tensor argument, for BeginCall.
struct ArgumentStorage {
  uint64_t bytes = 0;
  std::string value;         // bytes of the elements, if host code may read them
  uint64_t value_at = 0;     // position of the first in the storage
  bool is_integers = false;  // of a tensor of integers
};

/// A launch that the runtime rejected, while the host code has not checked for errors yet.
struct FailedLaunch {
  std::string kernel;
  std::string message;
};

struct CapturedGraph {
  std::vector<RawWork> works;
  std::vector<Frontier> after;
  Frontier ends;
};

class Session {
 public:
  AddressSpace memory;
  Streams streams;
  device::Description device;

  // ---- the module ----
  void AddKernel(Kernel kernel);
  /// Each .cu file of the candidate registers its device code when the shared object is loaded, in
  /// the order of linking: the n-th is that of image n. `data`: where the code is. Returns a
  /// handle.
  void** RegisterFatBinary(const void* data);
  /// Refuses if the registered fat binaries are not the images.
  void CheckFatBinaries() const;
  void RegisterFunction(void** handle, const void* host, const char* name);
  void RegisterVariable(void** handle, const void* host, const char* name, uint64_t bytes,
                        bool constant);
  /// By the host stub's address or by the handle that __cudaGetKernel returned; null if unknown.
  Kernel* FindKernel(const void* function);
  const Allocation* FindSymbol(const void* host) const;

  // ---- one call ----
  /// Returns the fake addresses of the argument storages. `other_stream`: the framework's current
  /// stream is one that does not wait for the default stream.
  std::vector<uint64_t> BeginCall(uint64_t seed, const std::vector<ArgumentStorage>& arguments,
                                  bool other_stream);
  /// Adds work in stream order, or to the graph into which the stream is captured.
  void Submit(uint64_t stream, RawWork work);
  /// Turns the call's work into a plan. `outputs` must have been read while the tensors were alive.
  plan::Plan EndCall(std::vector<plan::View> outputs);
  /// A returned tensor as a view whose buffer is still an allocation id.
  plan::View OutputView(const CupelTensor& tensor, size_t index);

  // ---- graphs ----
  int NewGraph() {
    graphs_.emplace_back();
    return static_cast<int>(graphs_.size()) - 1;
  }
  CapturedGraph& Graph(int index) { return graphs_.at(static_cast<size_t>(index)); }
  void LaunchGraph(const CapturedGraph& graph, uint64_t stream);

  // ---- what host code may read from device memory ----
  /// Copies `bytes` at `address` if they are values that host code may read (task::HostMayRead),
  /// otherwise refuses.
  void ReadDevice(uint64_t address, uint64_t bytes, void* to, std::string_view api);
  /// The device pointers that the candidate uploaded to `array` in this call. Refuses if there are
  /// none.
  std::vector<plan::Address> ReadPointerArray(uint64_t array, int64_t count);

  /// Remembers an asynchronous copy from pinned host memory. Ignores other host memory.
  void NoteAsyncRead(const void* from, uint64_t bytes);
  /// The host has waited for the device, so asynchronous copies have ended.
  void HostWaited() { async_reads_.clear(); }

  bool read_values = false;  // host code has read elements of arguments in this call
  std::optional<FailedLaunch> failed_launch;
  int images = 1;                       // of the shared object
  int last_error = 0;                   // cudaError_t
  std::string driver_problem;           // why a function of the driver returned an error
  uint64_t current_stream = 0;          // of the framework
  std::map<uint64_t, uint64_t> pinned;  // host memory from cudaMallocHost: base, bytes

 private:
  struct AsyncRead {
    const char* from;
    std::string bytes;  // at the time of the copy
  };

  int Issue(const RawWork& work, const Frontier& after);
  void CheckAsyncReads() const;
  plan::Address Resolve(uint64_t address, std::string_view what);
  /// Finds the device addresses and tensor maps in `bytes`, adds them to the work's lists and
  /// zeroes them. `work` is a plan::Launch or a plan::Upload, and `bytes` its member.
  template <typename Work>
  void Relocate(Work& work, std::string& bytes, const std::string& what);
  plan::View Resolve(const RawView& view, std::string_view what);
  plan::Launch Resolve(const RawLaunch& raw);
  plan::Gemm Resolve(const RawGemm& raw);
  void CheckOrdered() const;
  /// Inserts earlier calls' copies from the host to memory that lives across calls before the
  /// call's work, and sets `prepared_`.
  void PrependKeptWrites(const std::vector<plan::View>& outputs);
  void RememberKeptWrites();
  std::string NameOf(const plan::Node& node) const;

  int ImageOf(void** handle) const;

  std::map<std::pair<int, std::string>, Kernel> kernels_;  // by image and name
  std::vector<const void*> fat_binaries_;
  std::deque<void*> handles_;  // as many; their addresses are the handles
  std::map<const void*, Kernel*> by_function_;
  std::map<const void*, int> symbols_;  // host variable -> allocation id
  std::deque<CapturedGraph> graphs_;    // references stay valid
  size_t argument_count_ = 0;
  std::vector<plan::Node> nodes_;  // buffers are allocation ids until EndCall
  std::vector<bool> after_start_;  // the node waits for the caller's earlier work
  size_t uploaded_bytes_ = 0;
  std::vector<AsyncRead> async_reads_;
  /// The last copies and fills of memory that lives across calls, in order; buffers are allocation
  /// ids.
  std::vector<plan::Node> kept_writes_;
  int prepared_ = 0;  // nodes of kept_writes_ at the beginning of nodes_
};

Session& CurrentSession();

/// A strided view of device memory as the shim describes it.
RawView ViewOf(const CupelTensor& tensor);

}  // namespace cupel::record
