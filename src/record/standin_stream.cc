// Streams, events, capture and graphs.
// SPDX-License-Identifier: Apache-2.0
#include <bit>
#include <memory>
#include <set>
#include <utility>

#include "record/standin.h"

namespace cupel::record {
namespace {

/// cudaGraph_t and cudaGraphExec_t point to one of these.
struct GraphHandle {
  int index = 0;  // into Session's graphs
};

std::set<const void*>& LiveGraphs() {
  static std::set<const void*> live;
  return live;
}

cudaError_t CreateStream(cudaStream_t* stream, unsigned flags, int priority) {
  const bool blocking = (flags & cudaStreamNonBlocking) == 0;
  const uint64_t handle = CurrentSession().streams.CreateStream(blocking, priority);
  *stream = std::bit_cast<cudaStream_t>(handle);
  return cudaSuccess;
}

Streams& AllStreams() { return CurrentSession().streams; }

bool Known(cudaStream_t stream) { return AllStreams().Exists(StreamOf(stream)); }
bool Known(cudaEvent_t event) { return AllStreams().EventExists(Handle(event)); }

cudaError_t CreateEvent(cudaEvent_t* event) {
  *event = std::bit_cast<cudaEvent_t>(AllStreams().CreateEvent());
  return cudaSuccess;
}

GraphHandle* NewHandle(int index) {
  // The candidate owns the handle until it destroys it. Leaks end with the short-lived child.
  auto handle = std::make_unique<GraphHandle>(GraphHandle{index});
  LiveGraphs().insert(handle.get());
  return handle.release();
}

cudaError_t DestroyHandle(const void* handle) {
  if (LiveGraphs().erase(handle) == 0) return Report(cudaErrorInvalidValue);
  delete static_cast<const GraphHandle*>(handle);
  return cudaSuccess;
}

cudaError_t Instantiate(cudaGraphExec_t* exec, cudaGraph_t graph) {
  if (!LiveGraphs().contains(graph)) return Report(cudaErrorInvalidValue);
  const auto* source = reinterpret_cast<const GraphHandle*>(graph);
  *exec = reinterpret_cast<cudaGraphExec_t>(NewHandle(source->index));
  return cudaSuccess;
}

}  // namespace
}  // namespace cupel::record

using namespace cupel::record;

extern "C" {

cudaError_t cudaStreamCreate(cudaStream_t* stream) { return CreateStream(stream, 0, 0); }
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
  return CreateStream(stream, flags, 0);
}
cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned flags, int priority) {
  return CreateStream(stream, flags, priority);
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  return AllStreams().DestroyStream(StreamOf(stream)) ? cudaSuccess
                                                      : Report(cudaErrorInvalidResourceHandle);
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  if (!Known(stream)) return Report(cudaErrorInvalidResourceHandle);
  if (AllStreams().CaptureOf(StreamOf(stream))) return Report(cudaErrorStreamCaptureUnsupported);
  AllStreams().SynchronizeStream(StreamOf(stream));
  CurrentSession().HostWaited();
  return cudaSuccess;
}
cudaError_t cudaStreamQuery(cudaStream_t stream) { return cudaStreamSynchronize(stream); }
cudaError_t cudaStreamGetFlags(cudaStream_t stream, unsigned* flags) {
  if (!Known(stream)) return Report(cudaErrorInvalidResourceHandle);
  *flags = AllStreams().IsBlocking(StreamOf(stream)) ? 0 : cudaStreamNonBlocking;
  return cudaSuccess;
}
cudaError_t cudaStreamGetPriority(cudaStream_t stream, int* priority) {
  if (!Known(stream)) return Report(cudaErrorInvalidResourceHandle);
  *priority = AllStreams().Priority(StreamOf(stream));
  return cudaSuccess;
}
cudaError_t cudaStreamGetDevice(cudaStream_t stream, int* device) {
  if (!Known(stream)) return Report(cudaErrorInvalidResourceHandle);
  *device = 0;
  return cudaSuccess;
}
cudaError_t cudaStreamSetAttribute(cudaStream_t /*stream*/, cudaStreamAttrID /*attribute*/,
                                   const cudaStreamAttrValue* /*value*/) {
  return cudaSuccess;  // hints: L2 windows, priorities
}
cudaError_t cudaCtxResetPersistingL2Cache() { return cudaSuccess; }
cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  *least = 0;
  *greatest = -5;
  return cudaSuccess;
}
cudaError_t cudaDeviceSynchronize() {
  if (AllStreams().AnyCapture()) return Report(cudaErrorStreamCaptureUnsupported);
  AllStreams().SynchronizeAll();
  CurrentSession().HostWaited();
  return cudaSuccess;
}
cudaError_t cudaThreadSynchronize() { return cudaDeviceSynchronize(); }

cudaError_t cudaEventCreate(cudaEvent_t* event) { return CreateEvent(event); }
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned /*flags*/) {
  return CreateEvent(event);
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  return AllStreams().DestroyEvent(Handle(event)) ? cudaSuccess
                                                  : Report(cudaErrorInvalidResourceHandle);
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  if (!Known(event) || !Known(stream)) return Report(cudaErrorInvalidResourceHandle);
  AllStreams().Record(Handle(event), StreamOf(stream));
  return cudaSuccess;
}
cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream, unsigned /*flags*/) {
  return cudaEventRecord(event, stream);
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  if (!Known(event)) return Report(cudaErrorInvalidResourceHandle);
  AllStreams().SynchronizeEvent(Handle(event));
  CurrentSession().HostWaited();
  return cudaSuccess;
}
cudaError_t cudaEventQuery(cudaEvent_t event) { return cudaEventSynchronize(event); }
cudaError_t cudaEventElapsedTime(float* /*ms*/, cudaEvent_t /*start*/, cudaEvent_t /*end*/) {
  Refuse("impure", "host code measures GPU time: a plan must not depend on a clock",
         "cudaEventElapsedTime");
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned /*flags*/) {
  if (!Known(event) || !Known(stream)) return Report(cudaErrorInvalidResourceHandle);
  AllStreams().Wait(StreamOf(stream), Handle(event));
  return cudaSuccess;
}

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode /*mode*/) {
  if (!Known(stream)) return Report(cudaErrorInvalidResourceHandle);
  Session& session = CurrentSession();
  if (!session.streams.BeginCapture(StreamOf(stream), session.NewGraph())) {
    return Report(cudaErrorStreamCaptureUnsupported);
  }
  return cudaSuccess;
}
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  *graph = nullptr;
  if (!Known(stream)) return Report(cudaErrorInvalidResourceHandle);
  Session& session = CurrentSession();
  const auto captured = session.streams.EndCapture(StreamOf(stream));
  if (!captured) return Report(cudaErrorIllegalState);
  CapturedGraph& result = session.Graph(captured->capture);
  // The stream that began the capture must wait for all captured work.
  std::vector<bool> joined(result.works.size());
  for (const int node : captured->end) joined[static_cast<size_t>(node)] = true;
  for (size_t i = joined.size(); i-- > 0;) {
    if (!joined[i]) return Report(cudaErrorStreamCaptureUnjoined);
    for (const int before : result.after[i]) joined[static_cast<size_t>(before)] = true;
  }
  result.ends = captured->end;
  *graph = reinterpret_cast<cudaGraph_t>(NewHandle(captured->capture));
  return cudaSuccess;
}
cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status) {
  if (!Known(stream)) return Report(cudaErrorInvalidResourceHandle);
  *status = AllStreams().CaptureOf(StreamOf(stream)) ? cudaStreamCaptureStatusActive
                                                     : cudaStreamCaptureStatusNone;
  return cudaSuccess;
}
cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* mode) {
  *mode = cudaStreamCaptureModeGlobal;
  return cudaSuccess;
}
cudaError_t cudaGraphInstantiate(cudaGraphExec_t* exec, cudaGraph_t graph,
                                 unsigned long long /*flags*/) {
  return Instantiate(exec, graph);
}
cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t* exec, cudaGraph_t graph,
                                          unsigned long long /*flags*/) {
  return Instantiate(exec, graph);
}
cudaError_t cudaGraphUpload(cudaGraphExec_t /*exec*/, cudaStream_t /*stream*/) {
  return cudaSuccess;
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream) {
  if (!LiveGraphs().contains(exec)) return Report(cudaErrorInvalidValue);
  if (!Known(stream)) return Report(cudaErrorInvalidResourceHandle);
  if (AllStreams().CaptureOf(StreamOf(stream))) {
    RefuseUnsupported("unsupported_api", "a graph launched inside a capture is not supported",
                      "cudaGraphLaunch");
  }
  Session& session = CurrentSession();
  session.LaunchGraph(session.Graph(reinterpret_cast<const GraphHandle*>(exec)->index),
                      StreamOf(stream));
  return cudaSuccess;
}
cudaError_t cudaGraphExecUpdate(cudaGraphExec_t exec, cudaGraph_t graph,
                                cudaGraphExecUpdateResultInfo* info) {
  if (!LiveGraphs().contains(exec) || !LiveGraphs().contains(graph)) {
    return Report(cudaErrorInvalidValue);
  }
  Session& session = CurrentSession();
  auto* target = reinterpret_cast<GraphHandle*>(exec);
  const auto* source = reinterpret_cast<const GraphHandle*>(graph);
  *info = {};
  // CUDA updates graphs of the same topology only.
  if (session.Graph(target->index).after != session.Graph(source->index).after) {
    info->result = cudaGraphExecUpdateErrorTopologyChanged;
    return Report(cudaErrorGraphExecUpdateFailure);
  }
  target->index = source->index;
  info->result = cudaGraphExecUpdateSuccess;
  return cudaSuccess;
}
cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t* nodes, size_t* count) {
  if (!LiveGraphs().contains(graph)) return Report(cudaErrorInvalidValue);
  if (nodes != nullptr) {
    RefuseUnsupported("unsupported_api", "reading the nodes of a captured graph is not supported",
                      "cudaGraphGetNodes");
  }
  *count = CurrentSession().Graph(reinterpret_cast<const GraphHandle*>(graph)->index).works.size();
  return cudaSuccess;
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec) { return DestroyHandle(exec); }
cudaError_t cudaGraphDestroy(cudaGraph_t graph) { return DestroyHandle(graph); }

}  // extern "C"
