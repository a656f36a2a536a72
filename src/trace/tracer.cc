// SPDX-License-Identifier: Apache-2.0
#include "trace/tracer.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <utility>

#include "base/random.h"
#include "os/files.h"
#include "os/frames.h"
#include "record/protocol.h"
#include "trace/arguments.h"
#include "trace/extensions.h"
#include "trace/join.h"
#include "trace/messages.h"

namespace cupel::trace {
namespace {

using Clock = std::chrono::steady_clock;
using record::Refusal;
using Answer = std::variant<Json, Refusal>;
using Checked = std::variant<std::monostate, Refusal>;

constexpr std::string_view kChild = "the program's process";
constexpr size_t kMaxProgram = 4u << 20;
constexpr size_t kMaxNotes = 64;
constexpr size_t kMaxSearches = 256, kMaxConfigurations = 1024;
constexpr int kMostQuestions = 100'000;  // of one answer
constexpr std::chrono::seconds kDeadline{60};
constexpr double kSeconds = 0.1;  // after this time, fewer calls are enough
constexpr uint64_t kLeastCalls = 12, kExtraCalls = 8, kFewCalls = 3;

/// The same work in memory that is kept, or in new memory, is the same work.
bool IsSameWork(plan::Plan one, plan::Plan other) {
  for (plan::Plan* plan : {&one, &other}) {
    for (plan::Buffer& buffer : plan->buffers) {
      if (buffer.kind == plan::BufferKind::kWorkspace) buffer.kind = plan::BufferKind::kTemporary;
    }
  }
  return one == other;
}

/// Adds the storages of an argument.
void AddStorages(const record::Argument& argument, bool is_input,
                 std::vector<ArgumentStorage>& into) {
  if (argument.kind == record::Argument::Kind::kTensor) {
    into.push_back({argument.storage_bytes, is_input});
  }
  for (const record::Argument& item : argument.items) AddStorages(item, is_input, into);
}

uint64_t BytesOf(const std::vector<ArgumentStorage>& storages) {
  uint64_t bytes = 0;
  for (const ArgumentStorage& storage : storages) bytes += storage.bytes;
  return bytes;
}

/// Whether argument `i` of the task's function is an input, and not state of its module.
bool IsInput(const Json& signature, size_t i) {
  const auto arguments = JsonArray(signature, "arguments", "signature.py");
  if (!arguments || i >= (*arguments)->size()) return true;
  return JsonString((**arguments)[i], "kind", "signature.py").value_or("input") == "input";
}

Json WantedJson(const std::optional<WantedConfiguration>& wanted) {
  if (!wanted) return nullptr;
  return Json::array({wanted->search, wanted->configuration});
}

Result<std::vector<record::Search>> ReadSearches(const Json& json) {
  std::vector<record::Search> searches;
  TRY_ASSIGN(const Json* list, JsonArray(json, "searches", kChild));
  if (list->size() > kMaxSearches) {
    return Fail(ErrorCode::kInvalidArgument, "its autotuners search too often");
  }
  for (const Json& item : *list) {
    record::Search search;
    TRY_ASSIGN(search.kernel, JsonString(item, "kernel", kChild));
    TRY_ASSIGN(search.configurations, JsonStringList(item, "configurations", kChild));
    TRY_ASSIGN(const int64_t chosen, JsonInt(item, "chosen", kChild));
    const auto count = static_cast<int64_t>(search.configurations.size());
    if (search.configurations.size() > kMaxConfigurations || chosen < -1 || chosen >= count) {
      return Fail(ErrorCode::kInvalidArgument, "its autotuner has no such configuration");
    }
    search.kernel = record::CleanText(search.kernel);
    for (std::string& text : search.configurations) text = record::CleanText(text);
    search.chosen = static_cast<int>(chosen);
    searches.push_back(std::move(search));
  }
  return searches;
}

}  // namespace

struct Tracer::Impl {
  /// A request to record, and the storages of its arguments.
  struct Call {
    Json request;
    std::vector<ArgumentStorage> storages;
  };
  struct Seen {
    Call call;
    plan::Plan plan;
  };

  std::filesystem::path program;
  std::string source;
  Options options;
  Extensions extensions;
  os::SandboxReport sandbox;
  std::optional<PythonChild> child;
  std::vector<Seen> seen;  // by the current child
  Random random{0};

  Impl(std::filesystem::path path, std::string text, Options from)
      : program(std::move(path)),
        source(std::move(text)),
        options(std::move(from)),
        extensions(program, options.build, options.record, options.device),
        random(Random(options.record.seed).Fork("trace")) {}

  /// Ends the child: what it says is not to be believed, or it refused.
  Refusal End(Refusal refusal) {
    child.reset();
    seen.clear();
    return refusal;
  }

  Result<std::optional<Refusal>> StartChild();
  Result<Answer> Ask(const Json& request);
  Result<Answer> Read(Clock::time_point deadline);
  Result<std::variant<Json, Refusal>> Reply(const Json& question);
  Result<record::Outcome> Run(const Json& request, const std::vector<ArgumentStorage>& storages);
  Result<std::variant<Call, Refusal>> Prepare(const std::string& function,
                                              const std::vector<task::Value>& args,
                                              const task::Setting& setting, uint64_t calls);
  Result<std::variant<plan::Plan, Refusal>> TakePlan(
      const Json& json, const std::vector<ArgumentStorage>& storages) const;
};

Result<std::optional<Refusal>> Tracer::Impl::StartChild() {
  if (child) return std::nullopt;
  TRY_ASSIGN(auto started, options.pool->Fork({}, options.record.stop));
  child.emplace(std::move(started));
  sandbox = options.pool->sandbox();
  seen.clear();
  std::error_code error;
  TRY_ASSIGN(auto answer, Ask({{"op", "load"},
                               {"file", program.filename().string()},
                               {"path", std::filesystem::absolute(program, error).string()},
                               {"source", source},
                               {"reference", options.reference},
                               {"wanted", WantedJson(options.wanted)},
                               {"device", DeviceJson(options.device)}}));
  if (auto* refusal = std::get_if<Refusal>(&answer)) return std::move(*refusal);
  return std::nullopt;
}

Result<Answer> Tracer::Impl::Read(Clock::time_point deadline) {
  auto answer = ReadAnswer(*child, "the program", {deadline, kDeadline}, options.record.stop);
  if (!answer) {
    child.reset();
    return tl::unexpected<Error>(answer.error());
  }
  if (auto* refusal = std::get_if<Refusal>(&*answer)) return End(std::move(*refusal));
  return std::move(*answer);
}

/// The answer to a question of the program. A refusal ends the recording, whatever the program
/// would do with it.
Result<std::variant<Json, Refusal>> Tracer::Impl::Reply(const Json& question) {
  const auto kind = JsonString(question, "ask", kChild);
  if (!kind) return tl::unexpected(kind.error());
  if (*kind == "build") return extensions.Build(question);
  if (*kind == "call") return extensions.Call(question);
  if (*kind == "ptx") return extensions.Assemble(question);
  if (*kind == "source") return extensions.Compile(question);
  return Fail(ErrorCode::kInvalidArgument, "an unknown question");
}

Result<Answer> Tracer::Impl::Ask(const Json& request) {
  const auto write = [&](const Json& json, Clock::time_point deadline) {
    return os::WriteFrame(child->channel(), DumpJson(json), deadline, options.record.stop);
  };
  auto deadline = Clock::now() + kDeadline;
  // If the child has ended, reading says how.
  if (const auto status = write(request, deadline);
      !status && status.error().code == ErrorCode::kCancelled) {
    child.reset();
    return tl::unexpected<Error>(status.error());
  }
  for (int i = 0; i <= kMostQuestions; ++i) {
    TRY_ASSIGN(Answer answer, Read(deadline));
    const Json* json = std::get_if<Json>(&answer);
    if (json == nullptr || !json->contains("ask")) return answer;
    const auto asked = Clock::now();
    auto reply = Reply(*json);
    if (!reply) {
      if (reply.error().code != ErrorCode::kInvalidArgument) return tl::unexpected(reply.error());
      return End(Damaged(reply.error().message));
    }
    if (auto* refusal = std::get_if<Refusal>(&*reply)) return End(std::move(*refusal));
    deadline += Clock::now() - asked;
    (void)write(std::get<Json>(*reply), deadline);
  }
  return End(Damaged("it asks too many questions"));
}

Result<std::variant<plan::Plan, Refusal>> Tracer::Impl::TakePlan(
    const Json& json, const std::vector<ArgumentStorage>& storages) const {
  TRY_ASSIGN(auto joined, Join(json, {extensions.parts(), extensions.kernels(), options.device,
                                      storages, options.record.operators.get()}));
  if (auto* plan = std::get_if<plan::Plan>(&joined)) {
    plan->function = "forward";
    plan->device = options.device.name;
  }
  return joined;
}

Result<record::Outcome> Tracer::Impl::Run(const Json& request,
                                          const std::vector<ArgumentStorage>& storages) {
  TRY_ASSIGN(auto refusal, StartChild());
  if (refusal) return record::Outcome(std::move(*refusal));
  TRY_ASSIGN(auto answer, Ask(request));
  if (auto* refused = std::get_if<Refusal>(&answer)) return record::Outcome(std::move(*refused));
  const Json& json = std::get<Json>(answer);
  const auto host_us = JsonNumber(json, "host_us", kChild);
  const auto recordings = JsonInt(json, "recordings", kChild);
  const auto notes = JsonArray(json, "notes", kChild);
  if (!json.contains("plan") || !host_us || !recordings || !notes) {
    return record::Outcome(End(Damaged("its answer has no plan")));
  }
  record::Recording recording;
  TRY_ASSIGN(auto plan, TakePlan(json["plan"], storages));
  if (auto* refused = std::get_if<Refusal>(&plan)) {
    return record::Outcome(End(std::move(*refused)));
  }
  recording.plan = std::get<plan::Plan>(std::move(plan));
  if (json.contains("first")) {
    TRY_ASSIGN(auto first, TakePlan(json["first"], storages));
    if (auto* refused = std::get_if<Refusal>(&first)) {
      return record::Outcome(End(std::move(*refused)));
    }
    recording.first = std::get<plan::Plan>(std::move(first));
  }
  recording.host_us = std::isfinite(*host_us) ? std::max(*host_us, 0.0) : 0;
  recording.recordings = static_cast<int>(std::clamp<int64_t>(*recordings, 0, 1000));
  if (json.contains("searches")) {
    auto searches = ReadSearches(json);
    if (!searches) return record::Outcome(End(Damaged(searches.error().message)));
    recording.searches = std::move(*searches);
  }
  recording.images = extensions.images();
  recording.notes = extensions.notes();
  for (const Json& note : **notes) {
    if (note.is_string() && recording.notes.size() < kMaxNotes) {
      recording.notes.push_back(record::CleanText(note.get<std::string>()));
    }
  }
  return record::Outcome(std::move(recording));
}

Tracer::Tracer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Tracer::~Tracer() = default;

Result<std::unique_ptr<Tracer>> Tracer::Start(const std::filesystem::path& program,
                                              Options options) {
  std::string source = std::move(options.text);
  if (source.empty()) {
    TRY_ASSIGN(source, os::ReadFile(program, kMaxProgram));
  }
  return std::unique_ptr<Tracer>(
      new Tracer(std::make_unique<Impl>(program, std::move(source), std::move(options))));
}

Result<std::variant<Tracer::Impl::Call, Refusal>> Tracer::Impl::Prepare(
    const std::string& function, const std::vector<task::Value>& args, const task::Setting& setting,
    uint64_t calls) {
  if (function != "forward") {
    return Refusal{"unsupported_api", "Python programs are recorded for the forward direction only",
                   function, true};
  }
  TRY_ASSIGN(const Json signature, options.signature(setting));
  const record::Request request = record::MakeRequest(function, args);
  Call call;
  for (size_t i = 0; i < request.args.size(); ++i) {
    AddStorages(request.args[i], IsInput(signature, i), call.storages);
  }
  call.request = {{"op", "record"},
                  {"init", signature.value("init", Json::object())},
                  {"arguments", signature.value("arguments", Json::array())},
                  {"args", WriteArguments(request.args)},
                  {"recordings", calls},
                  {"seconds", kSeconds},
                  {"seed", random.Below(1u << 30)}};
  return call;
}

Result<record::Outcome> Tracer::Record(const std::string& function,
                                       const std::vector<task::Value>& args,
                                       const task::Setting& setting) {
  const uint64_t calls = kLeastCalls + impl_->random.Below(kExtraCalls);
  TRY_ASSIGN(auto prepared, impl_->Prepare(function, args, setting, calls));
  if (auto* refusal = std::get_if<Refusal>(&prepared)) return record::Outcome(std::move(*refusal));
  auto& call = std::get<Impl::Call>(prepared);
  TRY_ASSIGN(auto outcome, impl_->Run(call.request, call.storages));
  if (const auto* recording = std::get_if<record::Recording>(&outcome)) {
    impl_->seen.push_back({std::move(call), recording->plan});
  }
  return outcome;
}

Result<record::Outcome> Tracer::Survey(const std::string& function,
                                       const std::vector<task::Value>& args,
                                       const task::Setting& setting) {
  TRY_ASSIGN(auto prepared, impl_->Prepare(function, args, setting, kFewCalls));
  if (auto* refusal = std::get_if<Refusal>(&prepared)) return record::Outcome(std::move(*refusal));
  const auto& call = std::get<Impl::Call>(prepared);
  return impl_->Run(call.request, call.storages);
}

Result<Checked> Tracer::Recheck() {
  auto seen = std::move(impl_->seen);
  const auto check = [&](const Impl::Seen& item, const char* why) -> Result<Checked> {
    TRY_ASSIGN(auto outcome, impl_->Run(item.call.request, item.call.storages));
    if (auto* refusal = std::get_if<Refusal>(&outcome)) return Checked(std::move(*refusal));
    if (IsSameWork(std::get<record::Recording>(outcome).plan, item.plan)) return Checked();
    return Checked(Refusal{"impure", why, "forward", false});
  };
  for (const Impl::Seen& item : seen) {
    TRY_ASSIGN(Checked checked,
               check(item,
                     "calls with other arguments in between changed the work that the program "
                     "requests for the same arguments"));
    if (std::holds_alternative<Refusal>(checked)) return checked;
  }
  if (seen.empty()) return Checked();
  // Another process, and other sizes first: see Recorder::Recheck.
  std::vector<Impl::Seen> items = seen;
  std::stable_sort(items.begin(), items.end(), [](const Impl::Seen& a, const Impl::Seen& b) {
    return BytesOf(a.call.storages) < BytesOf(b.call.storages);
  });
  for (const char* order : {"smaller", "larger"}) {
    impl_->child.reset();
    for (Impl::Seen& item : items) {
      item.call.request["recordings"] = kFewCalls;
      TRY_ASSIGN(Checked checked,
                 check(item, "another process requests different work with the same arguments"));
      auto* refusal = std::get_if<Refusal>(&checked);
      if (refusal == nullptr) continue;
      if (refusal->code != "impure" && items.size() > 1) {
        refusal->message = fmt::format("in a process that is called with {} sizes first: {}", order,
                                       refusal->message);
      }
      return checked;
    }
    if (items.size() == 1) break;
    std::reverse(items.begin(), items.end());
  }
  impl_->seen = std::move(seen);
  return impl_->extensions.Recheck();
}

const os::SandboxReport& Tracer::sandbox() const { return impl_->sandbox; }

const std::vector<ProgramCode>& Tracer::code() const { return impl_->extensions.code(); }

}  // namespace cupel::trace
