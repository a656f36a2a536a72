// Opens what records a candidate's calls.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>

#include "assay/assay.h"
#include "base/result.h"
#include "record/call_recorder.h"
#include "trace/tracer.h"

namespace cupel::assay {

/// `seed`: of fake addresses. `candidate` must have been built. Errors: also IsUnsupportedCode().
Result<std::unique_ptr<record::CallRecorder>> OpenRecorder(const Candidate& candidate,
                                                           const Question& question,
                                                           const Parts& parts, uint64_t seed);

/// The same for the object with filled variables. Null if the candidate has none, or if it cannot
/// be loaded.
Result<std::unique_ptr<record::CallRecorder>> OpenFilledRecorder(const Candidate& candidate,
                                                                 const Parts& parts, uint64_t seed);

/// The same for a Python program. `question` and `parts` must outlive it.
Result<std::unique_ptr<trace::Tracer>> OpenTracer(const Candidate& program,
                                                  const Question& question, const Parts& parts,
                                                  uint64_t seed);

}  // namespace cupel::assay
