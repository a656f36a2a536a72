// SPDX-License-Identifier: Apache-2.0
#include "assay/open_recorder.h"

#include <string>
#include <utility>

#include "os/files.h"
#include "record/recorder.h"
#include "trace/launch_description.h"

namespace cupel::assay {
namespace {

constexpr size_t kMaxReference = 1u << 20;

Result<std::unique_ptr<record::Recorder>> Start(const build::Images& images, const Parts& parts,
                                                const record::Options& options) {
  TRY_ASSIGN(auto recorder, record::Recorder::Start(images, parts.engine->Device(), options));
  return std::make_unique<record::Recorder>(std::move(recorder));
}

/// `seed`: of fake addresses.
record::Options RecordOptions(const Parts& parts, uint64_t seed) {
  record::Options options = parts.record;
  options.seed = seed;
  return options;
}

}  // namespace

Result<std::unique_ptr<trace::Tracer>> OpenTracer(const Candidate& program,
                                                  const Question& question, const Parts& parts,
                                                  uint64_t seed) {
  if (parts.pythons == nullptr || !parts.signature) {
    return Fail(ErrorCode::kUnsupported, "Python programs cannot be recorded here");
  }
  trace::Options options;
  options.pool = parts.pythons;
  options.build = program.built_with;
  options.record = RecordOptions(parts, seed);
  options.device = parts.engine->Device();
  const task::Task& task = *question.task;
  options.signature = [&parts, &task,
                       direction = question.direction](const task::Setting& setting) {
    return parts.signature(task, direction, setting);
  };
  // Without it, parameters are found by their names.
  options.reference =
      os::ReadFile(task.code[static_cast<int>(question.direction)], kMaxReference).value_or("");
  options.wanted = std::get<PythonProgram>(program.built).wanted;
  if (program.sources != nullptr) options.text = trace::ProgramOf(*program.sources);
  return trace::Tracer::Start(program.path, std::move(options));
}

Result<std::unique_ptr<record::CallRecorder>> OpenRecorder(const Candidate& candidate,
                                                           const Question& question,
                                                           const Parts& parts, uint64_t seed) {
  const build::Images* images = candidate.images();
  if (images == nullptr) {
    TRY_ASSIGN(auto tracer, OpenTracer(candidate, question, parts, seed));
    return std::unique_ptr<record::CallRecorder>(std::move(tracer));
  }
  TRY_ASSIGN(auto recorder, Start(*images, parts, RecordOptions(parts, seed)));
  return std::unique_ptr<record::CallRecorder>(std::move(recorder));
}

Result<std::unique_ptr<record::CallRecorder>> OpenFilledRecorder(const Candidate& candidate,
                                                                 const Parts& parts,
                                                                 uint64_t seed) {
  const build::Images* images = candidate.images();
  if (images == nullptr || images->empty() || images->front()->filled_object.empty()) {
    return std::unique_ptr<record::CallRecorder>();
  }
  build::Images filled = *images;
  auto with_object = std::make_shared<build::Image>(*filled.front());
  with_object->shared_object = with_object->filled_object;
  filled.front() = std::move(with_object);
  TRY_ASSIGN(auto recorder, Start(filled, parts, RecordOptions(parts, seed)));
  TRY_ASSIGN(const auto functions, recorder->Functions());
  if (std::holds_alternative<record::Refusal>(functions)) recorder.reset();
  return std::unique_ptr<record::CallRecorder>(std::move(recorder));
}

}  // namespace cupel::assay
