// What judging one candidate needs at all of its settings: the processes that record it, its loaded
// images, and what its plans have in common.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <set>
#include <string>

#include "assay/assay.h"
#include "assay/loaded_images.h"
#include "assay/setting_judge.h"
#include "plan/own_work.h"
#include "record/call_recorder.h"

namespace cupel::assay {

/// Not thread-safe.
class JudgingState {
 public:
  /// Loads the candidate's images and starts its recorder. All arguments are borrowed. Fails with
  /// an error of IsUnsupportedCode() if the engine cannot load it.
  static Result<std::unique_ptr<JudgingState>> Open(const Candidate& candidate,
                                                    const Question& question, const Parts& parts,
                                                    uint64_t seed);

  /// How to judge a setting. The context borrows from this object.
  SettingContext At(const task::Setting& setting);

  record::CallRecorder& recorder() { return *recorder_; }
  LoadedImages& loaded() { return loaded_; }

  // Over all recorded calls:
  std::set<std::string> launched;   // the mangled names of the kernels that they launch
  std::set<std::string> operators;  // the operators of PyTorch that they call
  plan::OwnWork own_work;           // what had a part in results

 private:
  JudgingState(const Candidate& candidate, const Question& question, const Parts& parts,
               uint64_t seed)
      : candidate_(candidate),
        question_(question),
        parts_(parts),
        seed_(seed),
        loaded_(*parts.engine) {}
  Result<std::unique_ptr<record::CallRecorder>> OpenRecorder() const;

  const Candidate& candidate_;
  const Question& question_;
  const Parts& parts_;
  const uint64_t seed_;
  LoadedImages loaded_;
  std::unique_ptr<record::CallRecorder> recorder_, spare_, filled_;
  bool may_scramble_ = true;
};

}  // namespace cupel::assay
