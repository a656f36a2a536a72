// What cupel and its GPU worker say to each other: JSON in frames (os/frames.h); tensors lie in
// shared memory. One request, one answer.
//
//   {"load": id, "ptx": …, "cubin": path, "variables": […]}  -> {} | {"error": …}
//   {"forget": id}                                            -> {}
//   {"execute": id, "plan": …, "arguments": [[at, bytes], …],
//    "results": at, "poison": n, "twice": bool}               -> {"run": …} | {"error": …}
//
// timing_protocol.h has the requests of timing. The worker begins with {"device": name,
// "description": name of the table's, "sm_count": n, "uuid": …}.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>

#include "base/json_fwd.h"
#include "base/result.h"
#include "engine/engine.h"
#include "gpu/shared_memory.h"

namespace cupel::gpu {

/// Where a tensor may begin in shared memory: `at` or behind.
constexpr uint64_t AlignedForTensor(uint64_t at) { return (at + 255) / 256 * 256; }

/// The run as JSON; its outputs' bytes go to `memory` from `at` on.
Result<Json> RunToJson(const engine::Run& run, uint64_t at, SharedMemory& memory);
/// Trusts nothing: a worker whose kernel spoilt it may say anything.
Result<engine::Run> RunFromJson(const Json& json, SharedMemory& memory);

/// Of what ErrorToJson (base/error_json.h) has made; what is missing has a default.
Error ErrorFromJson(const Json& json);

}  // namespace cupel::gpu
