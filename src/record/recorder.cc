// The parent's side: starts the child in the sandbox, requests plans, and checks every answer.
// SPDX-License-Identifier: Apache-2.0
#include "record/recorder.h"

#include <cuda_runtime_api.h>
#include <fmt/format.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <csignal>
#include <cstring>
#include <iterator>
#include <map>
#include <optional>
#include <string_view>
#include <utility>

#include "base/json.h"
#include "base/parse_number.h"
#include "base/random.h"
#include "os/fd.h"
#include "os/frames.h"
#include "os/process.h"
#include "plan/codec.h"
#include "ptx/parser.h"
#include "record/kernels.h"
#include "record/protocol.h"

namespace cupel::record {
namespace {

using Clock = std::chrono::steady_clock;
using Answer = std::variant<Json, Refusal>;

constexpr uint64_t kChildDataBytes = uint64_t{4} << 30;
constexpr uint64_t kChildCpuSeconds = 120;
constexpr int kLeastRecordings = 24;
constexpr int kFewRecordings = 3;
constexpr uint64_t kExtraRecordings = 64;
constexpr int64_t kBudgetUs = 60'000;

/// `code` if it is a defined code, else "host_crash".
std::string KnownCode(const std::string& code) {
  constexpr std::string_view kKnown[] = {
      "host_crash",      "host_timeout",        "host_exception",      "wrong_arguments",
      "no_function",     "wrong_return",        "reads_device_memory", "impure",
      "unordered_work",  "freed_memory",        "host_privilege",      "illegal_launch",
      "unsupported_api", "unsupported_operator"};
  const bool known = std::find(std::begin(kKnown), std::end(kKnown), code) != std::end(kKnown);
  return known ? code : "host_crash";
}

Result<Refusal> ReadRefusal(const Json& json) {
  TRY_ASSIGN(Refusal refusal, RefusalFromJson(json));
  if (refusal.code == "internal") {
    return Fail(ErrorCode::kInternal, "recorder: " + refusal.message);
  }
  refusal.code = KnownCode(refusal.code);
  constexpr std::string_view kSyscall = "syscall ";
  if (refusal.code == "host_privilege" && refusal.where.starts_with(kSyscall)) {
    std::string_view rest = std::string_view(refusal.where).substr(kSyscall.size());
    const int number = TakeNumber<int>(rest).value_or(0);
    refusal.where = os::SyscallName(number);
    refusal.message += fmt::format(" ({}): no files, sockets, threads or processes", refusal.where);
  }
  return refusal;
}

Refusal Inconsistent(std::string_view problem) {
  return {"host_crash", fmt::format("host code damaged the recording process: {}", problem), "",
          false};
}

/// The names in a child's message.
std::vector<std::string> FunctionsOf(const Json& json) {
  std::vector<std::string> names;
  const auto list = JsonArray(json, "functions", "recorder");
  if (!list) return names;
  for (const Json& name : **list) {
    if (name.is_string()) names.push_back(CleanText(name.get<std::string>()));
  }
  return names;
}

/// Of all arguments.
uint64_t BytesOf(const Argument& argument) {
  uint64_t bytes = argument.kind == Argument::Kind::kTensor ? argument.storage_bytes : 0;
  for (const Argument& item : argument.items) bytes += BytesOf(item);
  return bytes;
}
uint64_t BytesOf(const Request& request) {
  uint64_t bytes = 0;
  for (const Argument& argument : request.args) bytes += BytesOf(argument);
  return bytes;
}

/// Compares plans. Workspaces may have grown, and a prepared fill of a whole workspace with it.
bool SamePlan(const plan::Plan& first, const plan::Plan& again) {
  plan::Plan a = first;
  plan::Plan b = again;
  for (plan::Plan* plan : {&a, &b}) {
    for (int i = 0; i < plan->prepared; ++i) {
      auto* fill = std::get_if<plan::Fill>(&plan->nodes[static_cast<size_t>(i)].work);
      if (fill == nullptr || fill->to.offset != 0) continue;
      const plan::Buffer& buffer = plan->buffers[static_cast<size_t>(fill->to.buffer)];
      if (fill->count * fill->pattern.size() == buffer.bytes) fill->count = 0;
    }
    for (plan::Buffer& buffer : plan->buffers) {
      if (buffer.kind == plan::BufferKind::kWorkspace) buffer.bytes = 0;
    }
  }
  return a == b;
}

}  // namespace

struct Recorder::Impl {
  struct Child {
    os::Process process;
    os::Fd channel;
    bool loading = false;  // hostile code may run from here on
    bool ready = false;
    bool has_answered = false;  // at least one request
  };
  struct Seen {
    Request request;
    plan::Plan plan;
  };

  build::Images images;  // those that are recorded
  device::Description device;
  Options options;
  std::string shared_object;
  std::string setup;                                                // the first frame
  std::map<std::pair<int, std::string>, uint32_t> parameter_bytes;  // by image and kernel
  std::map<std::pair<int, std::string>, uint64_t> symbol_bytes;     // by image and variable
  std::optional<Child> child;
  os::SandboxReport sandbox;
  std::vector<Seen> seen;  // by the current child, or by a child that it replaced
  Random random{0};

  int children = 0;                  // started so far
  bool killed_from_outside = false;  // the last child that ended

  Status StartChild();
  Result<Answer> Ask(const std::string& frame, Clock::time_point deadline);
  /// Reads the answer to a request, and answers the child's questions about operators before it.
  Result<Answer> ReadAnswer(Clock::time_point deadline);
  Result<Answer> ReadMessage(Clock::time_point deadline);
  Result<Json> Describe(const Json& question) const;
  Refusal ExplainEnd(os::FrameEnd end);
  /// `few`: compares only a few calls, for requests that were recorded before.
  Result<Outcome> Run(Request request, bool few = false);
  Result<std::variant<std::monostate, Refusal>> RecheckInOrder(const std::vector<Seen>& items,
                                                               const char* order);
  std::optional<Refusal> CheckPlan(const plan::Plan& plan, const Request& request) const;
  std::optional<Refusal> TakePlan(const Json& json, const Request& request, plan::Plan& into) const;
};

/// An environment like that of a user's processes.
std::map<std::string, std::string> UsualEnvironment() {
  return {{"HOME", "/home/user"}, {"USER", "user"},    {"PATH", "/usr/local/bin:/usr/bin:/bin"},
          {"SHELL", "/bin/bash"}, {"LANG", "C.UTF-8"}, {"PWD", "/home/user"}};
}

Status Recorder::Impl::StartChild() {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
    return Fail(ErrorCode::kIo, fmt::format("recorder: socketpair: {}", std::strerror(errno)));
  }
  os::Fd ours(ends[0]);
  const os::Fd theirs(ends[1]);
  os::Confinement confinement;
  confinement.syscalls = os::SyscallProfile::kRecorder;
  confinement.readable = {options.program, shared_object, "/usr/lib",
                          "/lib",          "/lib64",      "/etc/ld.so.cache"};
  confinement.data_bytes = kChildDataBytes;
  confinement.cpu_seconds = kChildCpuSeconds;
  confinement.file_bytes = 1;
  confinement.allow_weak = options.allow_weak_sandbox;
  os::SpawnOptions spawn;
  spawn.argv = {options.program.string(), "recorder"};
  spawn.confinement = &confinement;
  spawn.extra_fds = {theirs.get()};
  spawn.stop = options.stop;
  // Recheck() compares a process with an environment and one without.
  if (++children % 2 == 1) spawn.env = UsualEnvironment();
  TRY_ASSIGN(auto process, os::Process::Spawn(spawn));
  sandbox = process.sandbox();
  child.emplace(Child{std::move(process), std::move(ours)});
  seen.clear();
  return os::WriteFrame(child->channel.get(), setup, Clock::now() + options.deadline, options.stop);
}

/// The child no longer answers. Returns the reason.
Refusal Recorder::Impl::ExplainEnd(os::FrameEnd end) {
  if (end == os::FrameEnd::kTimeout) {
    child.reset();
    return {"host_timeout",
            fmt::format("host code did not finish within {} s",
                        std::chrono::duration<double>(options.deadline).count()),
            "", false};
  }
  const auto status = child->process.Wait(std::chrono::milliseconds(1000));
  const bool has_answered = child->has_answered;
  child.reset();
  // Crashes of host code end with other signals. SIGKILL comes from a system that is short of
  // memory. The CPU time limit (SIGXCPU) covers all requests of a process, not just this one.
  killed_from_outside = status && !status->exited && !status->timed_out &&
                        (status->signal == SIGKILL || (status->signal == SIGXCPU && has_answered));
  if (!status) return Inconsistent("cannot wait for it");
  if (status->exited) {
    return {"host_crash", fmt::format("host code ended its process ({})", status->Describe()), "",
            false};
  }
  return {"host_crash", fmt::format("host code crashed ({})", status->Describe()), "", false};
}

Result<Json> Recorder::Impl::Describe(const Json& question) const {
  if (options.operators == nullptr) {
    return Json{{"refused", "operators of PyTorch in host code need PyTorch"}};
  }
  return options.operators->Describe(question);
}

Result<Answer> Recorder::Impl::ReadAnswer(Clock::time_point deadline) {
  constexpr int kMostQuestions = 10'000;  // of one answer
  for (int questions = 0; questions <= kMostQuestions; ++questions) {
    TRY_ASSIGN(Answer answer, ReadMessage(deadline));
    const Json* json = std::get_if<Json>(&answer);
    if (json == nullptr || !json->contains("describe")) return answer;
    const auto asked = Clock::now();
    TRY_ASSIGN(const Json reply, Describe((*json)["describe"]));
    deadline += Clock::now() - asked;
    const auto status =
        os::WriteFrame(child->channel.get(), DumpJson(reply), deadline, options.stop);
    if (!status && status.error().code == ErrorCode::kCancelled) {
      child.reset();
      return tl::unexpected<Error>(status.error());
    }
    if (!status) return ExplainEnd(os::FrameEnd::kClosed);
  }
  child.reset();
  return Inconsistent("it asks too many questions");
}

Result<Answer> Recorder::Impl::ReadMessage(Clock::time_point deadline) {
  os::FrameEnd end{};
  auto frame = os::ReadFrame(child->channel.get(), deadline, &end, options.stop);
  if (!frame) {
    child.reset();
    if (frame.error().code == ErrorCode::kCancelled) return tl::unexpected<Error>(frame.error());
    return Inconsistent("its answer is too large");
  }
  if (!*frame) return ExplainEnd(end);
  auto json = ParseJson(**frame, "recorder");
  if (!json || !json->is_object()) {
    child.reset();
    return Inconsistent("its answer is not JSON");
  }
  if (!json->contains("refusal")) return std::move(*json);
  const bool trusted = !child->loading;
  child.reset();
  auto refusal = ReadRefusal((*json)["refusal"]);
  if (refusal) return std::move(*refusal);
  if (trusted) return tl::unexpected<Error>(refusal.error());
  return Inconsistent("its refusal cannot be read");
}

Result<Answer> Recorder::Impl::Ask(const std::string& frame, Clock::time_point deadline) {
  if (!child) TRY(StartChild());
  for (bool Child::* state : {&Child::loading, &Child::ready}) {
    if ((*child).*state) continue;
    TRY_ASSIGN(auto answer, ReadAnswer(deadline));
    if (std::holds_alternative<Refusal>(answer)) return answer;
    (*child).*state = true;
  }
  const auto status = os::WriteFrame(child->channel.get(), frame, deadline, options.stop);
  if (!status && status.error().code == ErrorCode::kCancelled) {
    child.reset();
    return tl::unexpected<Error>(status.error());
  }
  if (!status) return ExplainEnd(os::FrameEnd::kClosed);
  return ReadAnswer(deadline);
}

/// Checks what Validate() cannot know: that the plan fits this image and these arguments.
std::optional<Refusal> Recorder::Impl::CheckPlan(const plan::Plan& plan,
                                                 const Request& request) const {
  std::vector<uint64_t> storages;
  const auto collect = [&](const auto& self, const std::vector<Argument>& args) -> void {
    for (const Argument& argument : args) {
      if (argument.kind == Argument::Kind::kTensor) storages.push_back(argument.storage_bytes);
      self(self, argument.items);
    }
  };
  collect(collect, request.args);
  for (const plan::Buffer& buffer : plan.buffers) {
    if (buffer.kind == plan::BufferKind::kArgument) {
      const auto index = static_cast<size_t>(buffer.argument);
      if (index >= storages.size() || storages[index] != buffer.bytes) {
        return Inconsistent("a buffer does not match its argument");
      }
    } else if (buffer.kind == plan::BufferKind::kSymbol) {
      const auto symbol = symbol_bytes.find({buffer.image, buffer.symbol});
      if (symbol == symbol_bytes.end() || symbol->second != buffer.bytes) {
        return Inconsistent("a buffer does not match a device variable");
      }
    }
  }
  for (const plan::Node& node : plan.nodes) {
    const auto* launch = std::get_if<plan::Launch>(&node.work);
    if (launch == nullptr) continue;
    const auto kernel = parameter_bytes.find({launch->image, launch->kernel});
    if (kernel == parameter_bytes.end() || kernel->second != launch->parameters.size()) {
      return Inconsistent("a launch does not match a kernel of the candidate");
    }
  }
  return std::nullopt;
}

std::optional<Refusal> Recorder::Impl::TakePlan(const Json& json, const Request& request,
                                                plan::Plan& into) const {
  auto plan = plan::FromJson(json, "recorder");
  if (!plan) return Inconsistent(plan.error().message);
  plan->function = request.function;
  plan->device = device.name;
  for (plan::Buffer& buffer : plan->buffers) buffer.changes = false;  // the task decides
  into = std::move(*plan);
  return CheckPlan(into, request);
}

Result<Outcome> Recorder::Impl::Run(Request request, bool few) {
  request.recordings = few ? kFewRecordings
                           : std::max(options.recordings, kLeastRecordings) +
                                 static_cast<int>(random.Below(kExtraRecordings));
  request.seed = random();
  request.budget_us = kBudgetUs;
  const std::string frame = DumpJson(ToJson(request));
  killed_from_outside = false;
  auto asked = Ask(frame, Clock::now() + options.deadline);
  if (asked && killed_from_outside) {
    // Start a replacement of the same kind, and keep `seen` for Recheck().
    --children;
    const auto kept = seen;
    asked = Ask(frame, Clock::now() + options.deadline);
    seen = kept;
  }
  TRY_ASSIGN(auto answer, std::move(asked));
  if (auto* refusal = std::get_if<Refusal>(&answer)) return std::move(*refusal);
  child->has_answered = true;
  const Json& json = std::get<Json>(answer);
  const auto damaged = [&](Refusal refusal) -> Outcome {
    child.reset();
    return refusal;
  };
  TRY_ASSIGN(const int64_t recordings,
             JsonInt(json, "recordings", "recorder").or_else([](const Error&) -> Result<int64_t> {
               return 0;
             }));
  const auto host_us = JsonNumber(json, "host_us", "recorder");
  if (!json.contains("plan") || !host_us) return damaged(Inconsistent("its answer has no plan"));
  Recording recording;
  recording.images = images;
  if (auto refusal = TakePlan(json["plan"], request, recording.plan)) {
    return damaged(std::move(*refusal));
  }
  if (json.contains("first")) {
    recording.first.emplace();
    if (auto refusal = TakePlan(json["first"], request, *recording.first)) {
      return damaged(std::move(*refusal));
    }
  }
  recording.reads_values = JsonBool(json, "reads_values", "recorder").value_or(false);
  recording.host_us = std::isfinite(*host_us) ? std::max(*host_us, 0.0) : 0;
  recording.recordings = static_cast<int>(std::clamp<int64_t>(recordings, 0, request.recordings));
  return recording;
}

Recorder::Recorder(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Recorder::Recorder(Recorder&&) noexcept = default;
Recorder& Recorder::operator=(Recorder&&) noexcept = default;
Recorder::~Recorder() = default;

Result<Recorder> Recorder::Start(const build::Images& images, const device::Description& device,
                                 const Options& options) {
  const build::Image& image = *images.at(0);
  // The layout of the runtime's structs depends on the toolkit's major version.
  const std::string major = fmt::format("nvcc {}.", CUDART_VERSION / 1000);
  if (!image.toolkit.empty() && !image.toolkit.starts_with(major)) {
    return Fail(ErrorCode::kEnvironment,
                fmt::format("this cupel was built for CUDA {} and the kernel was compiled by {}",
                            CUDART_VERSION / 1000, image.toolkit),
                "use the toolkit that cupel was built with, or build cupel with this one");
  }
  auto impl = std::make_unique<Impl>();
  impl->images = images;
  impl->device = device;
  impl->options = options;
  impl->shared_object = image.shared_object.string();
  impl->random = Random(options.seed).Fork("record");
  Setup setup;
  setup.shared_object = impl->shared_object;
  setup.device = device;
  setup.images = static_cast<int>(images.size());
  for (int i = 0; i < setup.images; ++i) {
    const build::Image& one = *images[static_cast<size_t>(i)];
    TRY_ASSIGN(const ptx::Module module, ptx::Parse(one.ptx));
    for (Kernel& kernel : KernelsOf(module, one)) {
      kernel.image = i;
      impl->parameter_bytes[{i, kernel.name}] = kernel.param_bytes;
      setup.kernels.push_back(std::move(kernel));
    }
    for (const ptx::Variable& variable : module.variables) {
      impl->symbol_bytes[{i, variable.name}] = variable.bytes;
    }
  }
  impl->setup = DumpJson(ToJson(setup));
  TRY(impl->StartChild());
  return Recorder(std::move(impl));
}

Result<Outcome> Recorder::Record(const std::string& function,
                                 const std::vector<task::Value>& args) {
  return Record(MakeRequest(function, args));
}

Result<Outcome> Recorder::Record(const std::string& function, const std::vector<task::Value>& args,
                                 const task::Setting& /*setting*/) {
  return Record(MakeRequest(function, args));
}

Result<Outcome> Recorder::Record(const Request& request) {
  TRY_ASSIGN(auto outcome, impl_->Run(request));
  if (const auto* recording = std::get_if<Recording>(&outcome)) {
    impl_->seen.push_back({request, recording->plan});
  }
  return outcome;
}

Result<Outcome> Recorder::Survey(const std::string& function, const std::vector<task::Value>& args,
                                 const task::Setting& /*setting*/) {
  return impl_->Run(MakeRequest(function, args), true);
}

Result<std::variant<std::vector<std::string>, Refusal>> Recorder::Functions() {
  using Found = std::variant<std::vector<std::string>, Refusal>;
  TRY_ASSIGN(auto answer, impl_->Ask(DumpJson(Json{{"functions", true}}),
                                     Clock::now() + impl_->options.deadline));
  if (auto* refusal = std::get_if<Refusal>(&answer)) return Found(std::move(*refusal));
  return Found(FunctionsOf(std::get<Json>(answer)));
}

Result<std::variant<std::monostate, Refusal>> Recorder::Recheck() {
  using Checked = std::variant<std::monostate, Refusal>;
  const auto seen = impl_->seen;
  for (const Impl::Seen& item : seen) {
    TRY_ASSIGN(auto outcome, impl_->Run(item.request));
    if (auto* refusal = std::get_if<Refusal>(&outcome)) return Checked(std::move(*refusal));
    if (!SamePlan(item.plan, std::get<Recording>(outcome).plan)) {
      return Checked(Refusal{"impure",
                             "calls with other arguments in between changed the GPU work that the "
                             "function requests for the same arguments",
                             item.request.function, false});
    }
  }
  if (seen.empty()) return Checked(std::monostate());
  // Other processes have other addresses of code, heap and stack, and other first calls: a size
  // that is kept from the first call may be too small for the next.
  std::vector<Impl::Seen> items = seen;
  std::stable_sort(items.begin(), items.end(), [](const Impl::Seen& a, const Impl::Seen& b) {
    return BytesOf(a.request) < BytesOf(b.request);
  });
  auto child = std::exchange(impl_->child, std::nullopt);
  TRY_ASSIGN(Checked checked, impl_->RecheckInOrder(items, "smaller"));
  if (items.size() > 1 && std::holds_alternative<std::monostate>(checked)) {
    std::reverse(items.begin(), items.end());
    TRY_ASSIGN(checked, impl_->RecheckInOrder(items, "larger"));
  }
  impl_->child = std::move(child);
  impl_->seen = seen;
  return checked;
}

Result<std::variant<std::monostate, Refusal>> Recorder::Impl::RecheckInOrder(
    const std::vector<Seen>& items, const char* order) {
  using Checked = std::variant<std::monostate, Refusal>;
  child.reset();
  for (const Seen& item : items) {
    TRY_ASSIGN(auto outcome, Run(item.request, true));
    if (auto* refusal = std::get_if<Refusal>(&outcome)) {
      if (items.size() > 1) {
        refusal->message = fmt::format("in a process that is called with {} sizes first: {}", order,
                                       refusal->message);
      }
      return Checked(std::move(*refusal));
    }
    if (!SamePlan(item.plan, std::get<Recording>(outcome).plan)) {
      return Checked(Refusal{"impure",
                             "another process requests different work with the same arguments: the "
                             "plan depends on addresses of the process or on earlier calls",
                             item.request.function, false});
    }
  }
  child.reset();
  return Checked(std::monostate());
}

Result<std::optional<Refusal>> Recorder::RecordOnOtherStream() {
  if (impl_->seen.empty()) return std::optional<Refusal>();
  Request request = impl_->seen.front().request;
  request.other_stream = true;
  TRY_ASSIGN(auto outcome, impl_->Run(std::move(request), true));
  if (auto* refusal = std::get_if<Refusal>(&outcome)) return std::optional(std::move(*refusal));
  return std::optional<Refusal>();
}

const os::SandboxReport& Recorder::sandbox() const { return impl_->sandbox; }

}  // namespace cupel::record
