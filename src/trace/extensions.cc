// SPDX-License-Identifier: Apache-2.0
#include "trace/extensions.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/json.h"
#include "build/flags.h"
#include "os/files.h"
#include "os/temp_dir.h"
#include "plan/json_parts.h"
#include "trace/arguments.h"
#include "trace/sources.h"

namespace cupel::trace {
namespace {

using record::Refusal;
using Reply = Extensions::Reply;

constexpr std::string_view kQuestion = "a call of an extension";
constexpr size_t kMostImages = 64;
constexpr size_t kMostParts = 100'000;

Refusal RefusalOf(const build::BuildFailure& failure, const std::string& name) {
  return {failure.code, fmt::format("extension {}: {}", name, failure.message), failure.where,
          failure.unsupported};
}

/// An output for the program: of an argument's memory, or of memory that the call made.
Json OutputOf(const plan::View& view, const plan::Plan& plan) {
  if (view.address.buffer == plan::kNoneOutput) return nullptr;
  const plan::Buffer& buffer = plan.buffers[static_cast<size_t>(view.address.buffer)];
  Json output{{"argument", nullptr},
              {"buffer", view.address.buffer},
              {"bytes", buffer.bytes},
              {"offset", view.address.offset},
              {"dtype", Name(view.dtype)},
              {"shape", view.shape},
              {"strides", view.strides}};
  if (buffer.kind == plan::BufferKind::kArgument) output["argument"] = buffer.argument;
  return output;
}

}  // namespace

Extensions::Extensions(std::filesystem::path program, build::Options build, record::Options record,
                       device::Description device)
    : program_(std::move(program)),
      build_(std::move(build)),
      record_(std::move(record)),
      device_(std::move(device)) {}

Result<Reply> Extensions::Build(const Json& question) {
  const std::string key = DumpJson(question);
  if (const auto known = built_.find(key); known != built_.end()) return Reply(known->second);
  if (images_.size() >= kMostImages) {
    return Reply(Refusal{"unsupported_api",
                         fmt::format("a program with more than {} extensions", kMostImages), "",
                         true});
  }
  TRY_ASSIGN(auto found, SourcesOf(question, program_.parent_path()));
  if (auto* refusal = std::get_if<Refusal>(&found)) return Reply(std::move(*refusal));
  const Sources& sources = std::get<Sources>(found);
  build::Options options = build_;
  const build::AnswerFlags flags = build::FlagsOfAnswer(sources.flags);
  options.flags.insert(options.flags.begin(), flags.kept.begin(), flags.kept.end());
  notes_.insert(notes_.end(), flags.notes.begin(), flags.notes.end());
  if (sources.has_files) options.include_roots.push_back(program_.parent_path());
  TRY_ASSIGN(os::TempDir folder, os::TempDir::Create());
  const auto file = folder.path() / (sources.name + ".cu");
  TRY(os::WriteFileAtomically(file, sources.text));
  TRY_ASSIGN(build::Outcome outcome, build::Build(file, options));
  if (const auto* failure = std::get_if<build::BuildFailure>(&outcome)) {
    Refusal refusal = RefusalOf(*failure, sources.name);
    if (refusal.unsupported) return Reply(std::move(refusal));
    // The program may catch the exception and go on.
    const Json failed{{"failed",
                       {{"code", refusal.code},
                        {"message", refusal.message},
                        {"where", refusal.where}}}};
    built_.emplace(key, failed);
    return Reply(failed);
  }
  auto& image = std::get<build::Image>(outcome);
  image.source = program_;
  TRY_ASSIGN(Reply reply, Load(std::move(image)));
  if (const auto* json = std::get_if<Json>(&reply)) built_.emplace(key, *json);
  return reply;
}

Result<Reply> Extensions::Load(build::Image image) {
  TRY_ASSIGN(auto recorder, record::Recorder::Start(image, device_, record_));
  TRY_ASSIGN(auto functions, recorder.Functions());
  if (auto* refusal = std::get_if<Refusal>(&functions)) return Reply(std::move(*refusal));
  images_.push_back(std::make_shared<const build::Image>(std::move(image)));
  known_.push_back({std::move(recorder), {}});
  return Reply(Json{{"image", images_.size() - 1},
                    {"functions", std::get<std::vector<std::string>>(functions)}});
}

Result<Reply> Extensions::Call(const Json& question) {
  TRY_ASSIGN(const int64_t image, JsonInt(question, "image", kQuestion));
  record::Request request;
  TRY_ASSIGN(request.function, JsonString(question, "function", kQuestion));
  TRY_ASSIGN(const Json* arguments, JsonArray(question, "arguments", kQuestion));
  if (image < 0 || static_cast<size_t>(image) >= known_.size() || parts_.size() >= kMostParts) {
    return Fail(ErrorCode::kInvalidArgument, "a call of an unknown extension");
  }
  TRY_ASSIGN(request.args, ReadArguments(*arguments));
  Known& known = known_[static_cast<size_t>(image)];
  const std::string key = DumpJson(record::ToJson(request));
  auto recorded = known.calls.find(key);
  if (recorded == known.calls.end()) {
    TRY_ASSIGN(auto outcome, known.recorder.Record(request));
    if (auto* refusal = std::get_if<Refusal>(&outcome)) return Reply(std::move(*refusal));
    recorded = known.calls.emplace(key, parts_.size()).first;
    parts_.push_back(
        {std::move(std::get<record::Recording>(outcome).plan), static_cast<int>(image)});
  }
  const plan::Plan& plan = parts_[recorded->second].plan;
  Json outputs = Json::array();
  for (const plan::View& view : plan.outputs) outputs.push_back(OutputOf(view, plan));
  return Reply(Json{{"call", recorded->second},
                    {"outputs", std::move(outputs)},
                    {"tuple", plan.returns_tuple}});
}

}  // namespace cupel::trace
