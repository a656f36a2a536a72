// The protocol between cupel and its GPU worker: JSON in frames (os/frames.h), with tensors in
// shared memory. Each request gets one answer.
//
//   {"load": id, "ptx": …, "cubin": path, "variables": […]}  -> {} | {"error": …}
//   {"forget": id}                                            -> {}
//   {"execute": id, "plan": …, "arguments": [[at, bytes], …],
//    "results": at, "poison": n, "twice": bool}               -> {"run": …} | {"error": …}
//
// timing_protocol.h has the requests for timing. The worker's first message is {"device": name,
// "description": name in the table, "sm_count": n, "uuid": …}.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>

#include "base/json_fwd.h"
#include "base/result.h"
#include "engine/engine.h"
#include "gpu/shared_memory.h"

namespace cupel::gpu {

/// The first position at or after `at` where a tensor may begin in shared memory.
constexpr uint64_t AlignedForTensor(uint64_t at) { return (at + 255) / 256 * 256; }

/// The run as JSON. Writes the outputs' bytes to `memory` from position `at` on.
Result<Json> RunToJson(const engine::Run& run, uint64_t at, SharedMemory& memory);
/// Validates everything, because a kernel may have corrupted the worker.
Result<engine::Run> RunFromJson(const Json& json, SharedMemory& memory);

/// Reads the result of ErrorToJson (base/error_json.h). Missing members get defaults.
Error ErrorFromJson(const Json& json);

}  // namespace cupel::gpu
