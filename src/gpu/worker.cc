// SPDX-License-Identifier: Apache-2.0
#include "gpu/worker.h"

#include <unistd.h>

#include <cstdlib>
#include <map>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "gpu/program.h"
#include "gpu/protocol.h"
#include "os/frames.h"
#include "plan/codec.h"

namespace cupel::gpu {
namespace {

constexpr std::chrono::hours kForEver{24 * 365};
constexpr std::chrono::seconds kWriteDeadline{60};

class Worker {
 public:
  Worker(std::unique_ptr<Device> device, SharedMemory memory)
      : device_(std::move(device)), memory_(std::move(memory)) {}

  Result<Json> Answer(const Json& request) {
    if (request.contains("load")) return Load(request);
    if (request.contains("forget")) {
      TRY_ASSIGN(const int64_t id, JsonInt(request, "forget", "request"));
      programs_.erase(id);
      return Json::object();
    }
    return Execute(request);
  }

 private:
  Result<Json> Load(const Json& request) {
    TRY_ASSIGN(const int64_t id, JsonInt(request, "load", "request"));
    build::Image image;
    TRY_ASSIGN(image.ptx, JsonString(request, "ptx", "request"));
    TRY_ASSIGN(image.cubin, JsonString(request, "cubin", "request"));
    TRY_ASSIGN(auto program, LoadProgram(*device_, image));
    programs_[id] = std::move(program);
    return Json::object();
  }

  Result<Json> Execute(const Json& request) {
    TRY_ASSIGN(const int64_t id, JsonInt(request, "execute", "request"));
    const auto program = programs_.find(id);
    if (program == programs_.end()) return Fail(ErrorCode::kInternal, "no such program");
    TRY_ASSIGN(const Json* plan_json, JsonObject(request, "plan", "request"));
    TRY_ASSIGN(const plan::Plan plan, plan::FromJson(*plan_json, "request.plan"));
    TRY_ASSIGN(const Json* places, JsonArray(request, "arguments", "request"));
    TRY_ASSIGN(const int64_t results, JsonInt(request, "results", "request"));
    TRY_ASSIGN(const std::span<std::byte> all, memory_.Map(static_cast<uint64_t>(results)));
    std::vector<std::span<const std::byte>> arguments;
    for (const Json& place : *places) {
      const auto at = place.at(0).get<uint64_t>(), bytes = place.at(1).get<uint64_t>();
      arguments.push_back(all.subspan(at, bytes));
    }
    engine::RunOptions options;
    TRY_ASSIGN(const int64_t poison, JsonInt(request, "poison", "request"));
    options.poison = static_cast<int>(poison);
    TRY_ASSIGN(const engine::Run run, program->second->Execute(plan, arguments, options));
    TRY_ASSIGN(Json json, RunToJson(run, static_cast<uint64_t>(results), memory_));
    return Json{{"run", std::move(json)}};
  }

  std::unique_ptr<Device> device_;
  SharedMemory memory_;
  std::map<int64_t, std::unique_ptr<engine::Program>> programs_;
};

Status Say(const Json& json) {
  return os::WriteFrame(os::kChildFd, DumpJson(json),
                        std::chrono::steady_clock::now() + kWriteDeadline);
}

Result<std::unique_ptr<Device>> OpenGpu(int ordinal, Json* hello) {
  TRY_ASSIGN(auto driver, OpenDriver());
  TRY_ASSIGN(auto device, Device::Open(std::move(driver), ordinal));
  TRY_ASSIGN(const device::Description description, DescriptionOf(*device));
  *hello = {{"device", device->name()},
            {"description", description.name},
            {"sm_count", description.sm_count}};
  return device;
}

}  // namespace

int WorkerMain(int argc, char** argv) {
  const int ordinal = argc > 2 ? static_cast<int>(std::strtol(argv[2], nullptr, 10)) : 0;
  Json hello;
  auto device = OpenGpu(ordinal, &hello);
  if (!device) {
    (void)Say({{"error", ErrorToJson(device.error())}});
    return 1;
  }
  if (!Say(hello)) return 1;
  Worker worker(std::move(*device), SharedMemory(kMemoryFd));
  for (;;) {
    os::FrameEnd end{};
    const auto frame =
        os::ReadFrame(os::kChildFd, std::chrono::steady_clock::now() + kForEver, &end);
    if (!frame || !*frame) break;
    auto request = ParseJson(**frame, "request");
    const Result<Json> answer =
        request ? worker.Answer(*request) : Result<Json>(tl::unexpected<Error>(request.error()));
    const Json json = answer ? *answer : Json{{"error", ErrorToJson(answer.error())}};
    if (!Say(json)) break;
  }
  // Without waiting for kernels that may never end: the driver tidies up behind a process.
  _exit(0);
}

}  // namespace cupel::gpu
