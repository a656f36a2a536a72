// Tested by the end-to-end tests.
// SPDX-License-Identifier: Apache-2.0
#include "assay/judging_state.h"

#include "assay/open_recorder.h"
#include "base/random.h"

namespace cupel::assay {

Result<std::unique_ptr<JudgingState>> JudgingState::Open(const Candidate& candidate,
                                                         const Question& question,
                                                         const Parts& parts, uint64_t seed) {
  std::unique_ptr<JudgingState> state(new JudgingState(candidate, question, parts, seed));
  if (const build::Images* images = candidate.images()) TRY(state->loaded_.Use(*images));
  TRY_ASSIGN(state->recorder_, state->OpenRecorder());
  return state;
}

Result<std::unique_ptr<record::CallRecorder>> JudgingState::OpenRecorder() const {
  const uint64_t addresses = Random(seed_).Fork("addresses")();
  return assay::OpenRecorder(candidate_, question_, parts_, addresses);
}

SettingContext JudgingState::At(const task::Setting& setting) {
  SettingContext context;
  context.question = &question_;
  context.setting = &setting;
  context.oracle = parts_.oracle;
  context.recorder = recorder_.get();
  context.spare_recorder = [this]() -> Result<record::CallRecorder*> {
    if (!spare_) {
      TRY_ASSIGN(spare_, OpenRecorder());
    }
    return spare_.get();
  };
  context.filled_recorder = [this]() -> Result<record::CallRecorder*> {
    if (!filled_) {
      TRY_ASSIGN(filled_, OpenFilledRecorder(candidate_, parts_, Random(seed_).Fork("filled")()));
    }
    return filled_.get();
  };
  context.loaded = &loaded_;
  context.may_scramble = &may_scramble_;
  context.launched = &launched;
  context.own_work = &own_work;
  context.operators = &operators;
  context.seed = seed_;
  context.stop = parts_.stop;
  context.begin_trial = [](const std::string&) {};
  return context;
}

}  // namespace cupel::assay
