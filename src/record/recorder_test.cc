// Records testdata/candidate.cu in the real sandbox. Honest host code yields the plan that it
// requests. Every other kind of host code yields its refusal.
// SPDX-License-Identifier: Apache-2.0
#include "record/recorder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <thread>

#include "base/json.h"
#include "os/files.h"
#include "os/mapped_file.h"
#include "plan/codec.h"

namespace cupel::record {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

build::Image TestImage(const char* shared_object = CUPEL_RECORD_CANDIDATE ".so") {
  build::Image image;
  image.shared_object = shared_object;
  image.ptx = os::ReadFile(CUPEL_RECORD_CANDIDATE ".ptx", 16 << 20).value();
  image.toolkit = "nvcc 13.0.88";
  return image;
}

task::Value Floats(std::vector<float> values) {
  static std::vector<std::unique_ptr<std::vector<float>>> storages;
  storages.push_back(std::make_unique<std::vector<float>>(std::move(values)));
  task::Tensor tensor;
  tensor.shape = {static_cast<int64_t>(storages.back()->size())};
  tensor.strides = {1};
  tensor.storage = std::as_bytes(std::span<const float>(*storages.back()));
  return {tensor};
}

class RecorderTest : public testing::Test {
 protected:
  Recorder& recorder() {
    if (!recorder_) {
      options_.program = "/proc/self/exe";
      options_.program = std::filesystem::read_symlink(options_.program);
      auto started = Recorder::Start(images_.empty() ? build::OneImage(image_) : images_,
                                     device::All().front(), options_);
      EXPECT_TRUE(started) << started.error().ToString();
      recorder_.emplace(std::move(*started));
    }
    return *recorder_;
  }

  Outcome Record(const std::string& function, const std::vector<task::Value>& args) {
    auto outcome = recorder().Record(function, args);
    EXPECT_TRUE(outcome) << outcome.error().ToString();
    return std::move(*outcome);
  }
  Outcome Record(const std::string& function) {
    return Record(function, {Floats(std::vector<float>(300))});
  }

  plan::Plan PlanOf(Outcome outcome) {
    if (const auto* refusal = std::get_if<Refusal>(&outcome)) {
      ADD_FAILURE() << refusal->code << ": " << refusal->message;
      return {};
    }
    return std::get<Recording>(outcome).plan;
  }

  Refusal RefusalOf(Outcome outcome) {
    if (const auto* recording = std::get_if<Recording>(&outcome)) {
      ADD_FAILURE() << "not refused:\n" << plan::Describe(recording->plan);
      return {};
    }
    return std::get<Refusal>(outcome);
  }

  void ExpectRefused(const std::string& function, const std::string& code,
                     const std::string& message, const std::string& where = "") {
    const Refusal refusal = RefusalOf(Record(function));
    EXPECT_EQ(refusal.code, code) << function << ": " << refusal.message;
    EXPECT_THAT(refusal.message, HasSubstr(message)) << function;
    EXPECT_THAT(refusal.where, HasSubstr(where)) << function;
  }

  Options options_;
  build::Image image_ = TestImage();
  build::Images images_;  // instead of image_

 private:
  std::optional<Recorder> recorder_;
};

TEST_F(RecorderTest, RecordsThePlanOfHonestCode) {
  const auto outcome = Record("forward");
  const auto& recording = std::get<Recording>(outcome);
  EXPECT_GE(recording.recordings, 256);
  EXPECT_GT(recording.host_us, 0);
  const plan::Plan& plan = recording.plan;
  EXPECT_EQ(plan::Describe(plan),
            "launch Scale(float const*, float*, int, float) grid 2 block 256 shared 0 "
            "[0]=argument 0 [8]=temporary 1\n"
            "return temporary 1 float32[300]\n");
  const auto& launch = std::get<plan::Launch>(plan.nodes.at(0).work);
  int n = 0;
  float factor = 0;
  ASSERT_EQ(launch.parameters.size(), 24u);
  std::memcpy(&n, launch.parameters.data() + 16, 4);
  std::memcpy(&factor, launch.parameters.data() + 20, 4);
  EXPECT_EQ(n, 300);
  EXPECT_EQ(factor, 2);
  EXPECT_EQ(plan.function, "forward");
  EXPECT_EQ(plan.device, device::All().front().name);
  ASSERT_EQ(recording.images.size(), 1u);
  EXPECT_EQ(recording.images[0]->ptx, image_.ptx);
}

TEST_F(RecorderTest, SurveyNeedsNoDataAndFewCalls) {
  auto zeros = os::MappedFile::Zeros(size_t{32} << 30);
  ASSERT_TRUE(zeros) << zeros.error().ToString();
  for (const int64_t elements : {int64_t{300}, int64_t{1} << 33}) {
    task::Tensor tensor;
    tensor.shape = {elements};
    tensor.strides = {1};
    tensor.storage = zeros->bytes().first(static_cast<size_t>(4 * elements));
    auto outcome = recorder().Survey("forward", {{tensor}}, {});
    ASSERT_TRUE(outcome) << outcome.error().ToString();
    if (elements == 300) {
      const auto& recording = std::get<Recording>(*outcome);
      EXPECT_LE(recording.recordings, 3);
      EXPECT_EQ(recording.plan, PlanOf(Record("forward")));
    } else {
      EXPECT_EQ(RefusalOf(std::move(*outcome)).code, "illegal_launch");  // int blocks
    }
  }
}

/// The images of testdata/two_*.cu, in the order of `parts`.
build::Images TwoImages(std::string_view parts, const char* object = CUPEL_RECORD_TWO ".so") {
  build::Images images;
  for (const char part : parts) {
    build::Image image;
    image.shared_object = object;
    image.ptx = os::ReadFile(std::string(CUPEL_RECORD_TWO "_") + part + ".ptx", 16 << 20).value();
    images.push_back(std::make_shared<const build::Image>(std::move(image)));
  }
  return images;
}

TEST_F(RecorderTest, FilesHaveKernelsAndVariablesOfTheirOwn) {
  images_ = TwoImages("ab");
  const auto outcome = Record("forward");
  ASSERT_TRUE(std::holds_alternative<Recording>(outcome)) << std::get<Refusal>(outcome).message;
  const auto& recording = std::get<Recording>(outcome);
  EXPECT_EQ(recording.images.size(), 2u);
  const plan::Plan& plan = recording.plan;
  ASSERT_EQ(plan.nodes.size(), 5u);  // the first one sets up the constant of the second file
  for (int image = 0; image < 2; ++image) {
    const auto first = static_cast<size_t>(1 + 2 * image);
    const auto& upload = std::get<plan::Upload>(plan.nodes[first].work);
    const plan::Buffer& variable = plan.buffers.at(static_cast<size_t>(upload.to.buffer));
    EXPECT_EQ(variable.symbol, "factors");
    EXPECT_EQ(variable.image, image);
    EXPECT_EQ(upload.bytes, image == 0 ? std::string("\0\0\0@", 4) : std::string("\0\0@@", 4));
    const auto& launch = std::get<plan::Launch>(plan.nodes[first + 1].work);
    EXPECT_EQ(launch.image, image);
    EXPECT_EQ(launch.kernel, "_Z4WorkPfi");
  }
}

TEST_F(RecorderTest, RejectsPlansThatDoNotFitTheirImages) {
  images_ = TwoImages("ba");  // "only_here" is a variable of image 0 of the shared object
  const Refusal refusal = RefusalOf(Record("forward"));
  EXPECT_EQ(refusal.code, "host_crash");
  EXPECT_THAT(refusal.message, HasSubstr("a buffer does not match a device variable"));
}

TEST_F(RecorderTest, RefusesDeviceCodeThatNvccDidNotCompile) {
  images_ = TwoImages("ab");
  ExpectRefused("registers", "unsupported_api", "device code that nvcc did not compile");
}

TEST_F(RecorderTest, RefusesFatBinariesInAnotherOrder) {
  images_ = TwoImages("abb", CUPEL_RECORD_TWO "_forged.so");  // has three fat binaries
  ExpectRefused("forward", "unsupported_api", "changes the order");
}

TEST_F(RecorderTest, RefusesAnotherNumberOfFatBinaries) {
  images_ = TwoImages("abb");
  ExpectRefused("forward", "unsupported_api", "changes the order");
}

TEST_F(RecorderTest, RecordsCopiesFillsAndSymbols) {
  const plan::Plan plan = PlanOf(Record("everything"));
  EXPECT_EQ(plan::Describe(plan),
            "upload 8 bytes -> coefficients + 8\n"
            "fill 64 x 1 bytes -> temporary 2\n"
            "copy 32 bytes temporary 2 + 16 <- argument 0\n"
            "launch Scale(float const*, float*, int, float) grid 2 block 256 shared 0 "
            "[0]=argument 0 + 32 [8]=temporary 2\n"
            "return temporary 2 float32[300]\n");
  for (size_t i = 0; i < plan.nodes.size(); ++i) {
    const auto expected = i == 0 ? std::vector<int>{} : std::vector<int>{static_cast<int>(i) - 1};
    EXPECT_EQ(plan.nodes[i].after, expected);
  }
}

TEST_F(RecorderTest, CopiesBetweenDeviceAddressesMayNameAnotherDirection) {
  const plan::Plan plan = PlanOf(Record("symbol_from_device"));
  EXPECT_THAT(plan::Describe(plan),
              testing::StartsWith("copy 8 bytes coefficients <- argument 0\n"
                                  "copy 16 bytes temporary 2 <- argument 0\n"));
}

TEST_F(RecorderTest, AllocationsThatOutliveTheCallAreWorkspaces) {
  const plan::Plan plan = PlanOf(Record("workspace"));
  ASSERT_EQ(plan.buffers.size(), 4u);
  EXPECT_EQ(plan.buffers[1].kind, plan::BufferKind::kWorkspace);
  EXPECT_EQ(plan.buffers[1].bytes, 4096u);
  EXPECT_EQ(plan.buffers[2].kind, plan::BufferKind::kTemporary);
  EXPECT_EQ(plan.buffers[2].bytes, 128u);
}

TEST_F(RecorderTest, VariablesThatTheFirstCallSetsArePreparedInEveryPlan) {
  const plan::Plan plan = PlanOf(Record("constants_once"));
  ASSERT_EQ(plan.nodes.size(), 3u) << plan::Describe(plan);
  EXPECT_EQ(plan.prepared, 2);
  const auto symbol = [&](size_t node) {
    const auto& upload = std::get<plan::Upload>(plan.nodes[node].work);
    return plan.buffers.at(static_cast<size_t>(upload.to.buffer)).symbol;
  };
  EXPECT_EQ(symbol(0), "coefficients");
  EXPECT_EQ(symbol(1), "launches");
  EXPECT_EQ(plan.nodes[2].after, std::vector<int>{1});
  EXPECT_EQ(PlanOf(Record("forward")).prepared, 2);  // also in other functions' plans
}

TEST_F(RecorderTest, MemoryThatTheFirstCallSetsIsPreparedInPlansThatUseIt) {
  const plan::Plan plan = PlanOf(Record("table_once"));
  ASSERT_EQ(plan.nodes.size(), 4u) << plan::Describe(plan);
  EXPECT_EQ(plan.prepared, 3);
  const auto& fill = std::get<plan::Fill>(plan.nodes[0].work);
  const auto& table = std::get<plan::Upload>(plan.nodes[1].work);
  const auto& pointer = std::get<plan::Upload>(plan.nodes[2].work);  // the kernel gets this one
  EXPECT_EQ(fill.count * fill.pattern.size(), 64u);
  EXPECT_EQ(table.bytes.size(), 16u);
  ASSERT_EQ(pointer.relocations.size(), 1u);
  EXPECT_EQ(pointer.relocations[0].target, table.to);
  for (const plan::Address& to : {fill.to, table.to, pointer.to}) {
    EXPECT_EQ(plan.buffers.at(static_cast<size_t>(to.buffer)).kind, plan::BufferKind::kWorkspace);
  }
  EXPECT_EQ(PlanOf(Record("forward")).prepared, 0);
}

TEST_F(RecorderTest, MemoryThatCallsCopyToIsNotPrepared) {
  const plan::Plan plan = PlanOf(Record("table_copied"));
  EXPECT_EQ(plan.prepared, 0) << plan::Describe(plan);
}

TEST_F(RecorderTest, PointersInsideStructsAndTablesAreRelocated) {
  const plan::Plan plan = PlanOf(Record("pointers"));
  const auto& by_struct = std::get<plan::Launch>(plan.nodes.at(0).work);
  ASSERT_EQ(by_struct.relocations.size(), 2u);
  EXPECT_EQ(by_struct.relocations[0], (plan::Relocation{8, {1, 16}}));
  EXPECT_EQ(by_struct.relocations[1], (plan::Relocation{16, {0, 1200}}));
  // Padding is not recorded.
  EXPECT_EQ(by_struct.parameters.substr(4, 4), std::string(4, '\0'));
  const auto& table = std::get<plan::Upload>(plan.nodes.at(1).work);
  ASSERT_EQ(table.relocations.size(), 2u);
  EXPECT_EQ(table.relocations[0], (plan::Relocation{0, {1, 0}}));
  EXPECT_EQ(table.relocations[1], (plan::Relocation{8, {0, 4}}));
}

TEST_F(RecorderTest, RecordsMatrixProducts) {
  const plan::Plan plan = PlanOf(Record("gemm"));
  ASSERT_EQ(plan.nodes.size(), 2u);
  const auto& gemm = std::get<plan::Gemm>(plan.nodes[0].work);
  EXPECT_TRUE(gemm.transpose_a);
  EXPECT_EQ(gemm.compute, "f32_tf32");
  EXPECT_EQ(gemm.alpha, 0.5);
  EXPECT_EQ(std::tuple(gemm.m, gemm.n, gemm.k), std::tuple(2, 3, 4));
  // y = A x with A 2x4: y' = x' A', a row times a transposed matrix.
  const auto& gemv = std::get<plan::Gemm>(plan.nodes[1].work);
  EXPECT_EQ(std::tuple(gemv.m, gemv.n, gemv.k), std::tuple(1, 2, 4));
  EXPECT_EQ(std::tuple(gemv.lda, gemv.ldb, gemv.ldc), std::tuple(2, 2, 1));
  EXPECT_TRUE(gemv.transpose_b);
}

TEST_F(RecorderTest, CapturedGraphsAreFlattened) {
  const plan::Plan plan = PlanOf(Record("graph"));
  ASSERT_EQ(plan.nodes.size(), 3u);
  EXPECT_TRUE(std::holds_alternative<plan::Fill>(plan.nodes[1].work));
  EXPECT_EQ(plan.nodes[1].after, std::vector<int>{0});
  EXPECT_EQ(plan.nodes[2].after, (std::vector<int>{0, 1}));
}

TEST_F(RecorderTest, SideStreamsMustForkAndJoin) {
  const plan::Plan plan = PlanOf(Record("fork_join"));
  ASSERT_EQ(plan.nodes.size(), 2u);
  EXPECT_TRUE(plan.nodes[1].after.empty());  // concurrent
  ExpectRefused("fork_only", "unordered_work", "the caller's next work does not wait",
                "kernel Scale");
  ExpectRefused("join_only", "unordered_work", "does not wait for the caller's earlier work");
}

TEST_F(RecorderTest, TriesAnotherCurrentStream) {
  PlanOf(Record("on_current_stream"));
  auto refusal = recorder().RecordOnOtherStream();
  ASSERT_TRUE(refusal) << refusal.error().ToString();
  EXPECT_FALSE(*refusal) << (*refusal)->message;
}

TEST_F(RecorderTest, NoticesWorkThatIgnoresTheCurrentStream) {
  PlanOf(Record("forward"));
  auto refusal = recorder().RecordOnOtherStream();
  ASSERT_TRUE(refusal) << refusal.error().ToString();
  ASSERT_TRUE(*refusal);
  EXPECT_EQ((*refusal)->code, "unordered_work");
  EXPECT_THAT((*refusal)->message, HasSubstr("kernel Scale"));
  PlanOf(Record("forward"));  // a later call is on the default stream again
}

TEST_F(RecorderTest, HostCodeMustNotReadDeviceMemory) {
  ExpectRefused("dereference", "reads_device_memory", "host code dereferenced device memory",
                "argument 0 + 16 bytes");
  ExpectRefused("copy_back", "reads_device_memory", "reads 4 bytes of device memory", "argument 0");
  const Refusal item = RefusalOf(Record("item", {Floats({1, 2, 3}), Floats({4, 5})}));
  EXPECT_EQ(item.code, "reads_device_memory");
}

TEST_F(RecorderTest, OneElementArgumentsCountAsScalars) {
  const plan::Plan plan = PlanOf(Record("item", {Floats({1, 2, 3}), Floats({7.5F})}));
  float factor = 0;
  std::memcpy(&factor, std::get<plan::Launch>(plan.nodes.at(0).work).parameters.data() + 20, 4);
  EXPECT_EQ(factor, 7.5F);
}

TEST_F(RecorderTest, HostCodeMayReadAFewIntegers) {
  std::vector<int32_t> many(2000, 1), few = {9, 2, 3, 9};
  task::Tensor tensor;
  tensor.dtype = DType::kI32;
  tensor.strides = {1};
  const auto record = [&](const std::vector<int32_t>& values, int64_t offset, int64_t count) {
    tensor.storage = std::as_bytes(std::span(values));
    tensor.shape = {count};
    tensor.offset = offset;
    return Record("sum_of_integers", {Floats({1, 2, 3}), task::Value{tensor}});
  };
  const auto outcome = record(few, 1, 2);
  const auto& recording = std::get<Recording>(outcome);
  EXPECT_TRUE(recording.reads_values);
  float sum = 0;
  std::memcpy(&sum, std::get<plan::Launch>(recording.plan.nodes.at(0).work).parameters.data() + 20,
              4);
  EXPECT_EQ(sum, 5.0F);
  const Refusal refusal = RefusalOf(record(many, 0, 2000));
  EXPECT_EQ(refusal.code, "reads_device_memory");
  EXPECT_TRUE(refusal.unsupported);
  // Other numbers are not for the host.
  tensor.dtype = DType::kF32;
  const Refusal floats = RefusalOf(record(few, 1, 2));
  EXPECT_FALSE(floats.unsupported);
  EXPECT_FALSE(std::get<Recording>(Record("forward")).reads_values);
}

TEST_F(RecorderTest, CrashesAreReportedWithTheirCause) {
  ExpectRefused("null_pointer", "host_crash", "null pointer");
  ExpectRefused("overflow", "host_crash", "SIGSEGV");
  ExpectRefused("divide", "host_crash", "SIGFPE");
  ExpectRefused("abort", "host_crash", "SIGABRT");
  ExpectRefused("exit", "host_crash", "exit status 3");
  ExpectRefused("throw", "host_exception", "x must be square");
  // After these crashes a new child serves the next call.
  EXPECT_EQ(PlanOf(Record("forward")).nodes.size(), 1u);
}

TEST_F(RecorderTest, EndlessHostCodeTimesOut) {
  options_.deadline = std::chrono::milliseconds(300);
  ExpectRefused("loop", "host_timeout", "0.3 s");
}

/// Waits until this process has grandchildren and sends SIGKILL to them.
void KillGrandchildren() {
  for (int tries = 0, killed = 0; killed == 0 && tries < 500; ++tries) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    std::map<int, int> parents;
    for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
      const int pid = std::atoi(entry.path().filename().c_str());
      const auto stat = pid > 0 ? os::ReadFile(entry.path() / "stat", 4096) : Result<std::string>();
      if (!stat || stat->rfind(')') == std::string::npos) continue;
      std::sscanf(stat->c_str() + stat->rfind(')') + 1, " %*c %d", &parents[pid]);
    }
    for (const auto& [pid, parent] : parents) {
      const auto above = parents.find(parent);
      if (above == parents.end() || above->second != getpid()) continue;
      if (kill(pid, SIGKILL) == 0) ++killed;
    }
  }
}

TEST_F(RecorderTest, RetriesWhenTheChildIsKilledFromOutside) {
  options_.deadline = std::chrono::milliseconds(1500);
  PlanOf(Record("forward"));  // the child runs and can answer
  std::thread killer(KillGrandchildren);
  ExpectRefused("loop", "host_timeout", "1.5 s");  // by the second child; the first was killed
  killer.join();
}

TEST_F(RecorderTest, DoesNotRetryWhenTheCandidateClosesTheChannel) {
  PlanOf(Record("loop_without_home"));
  const auto checked = recorder().Recheck();  // the second process has no environment
  ASSERT_TRUE(checked);
  ASSERT_TRUE(std::holds_alternative<Refusal>(*checked));
  EXPECT_EQ(std::get<Refusal>(*checked).code, "host_crash");
}

TEST_F(RecorderTest, PrivilegesAreRefusedByName) {
  ExpectRefused("fork", "host_privilege", "not permitted", "clone");
  ExpectRefused("socket", "host_privilege", "not permitted", "socket");
  ExpectRefused("write_file", "host_privilege", "not permitted", "open");
  ExpectRefused("read_file", "host_privilege", "not permitted", "open");
  ExpectRefused("sleep", "host_privilege", "not permitted", "nanosleep");
  EXPECT_EQ(PlanOf(Record("print")).nodes.size(), 1u);  // allowed; the output is discarded
}

TEST_F(RecorderTest, RejectsDependenceOnEarlierCalls) {
  ExpectRefused("counter", "impure", "call 40 requests different work");
  ExpectRefused("cache_by_pointer", "impure", "");
  ExpectRefused("stale_pointer", "impure", "kept it from an earlier call");
  ExpectRefused("elapsed", "impure", "time");
}

TEST_F(RecorderTest, RejectsDependenceOnAddresses) {
  ExpectRefused("by_address", "impure", "the plan depends on device addresses");
  ExpectRefused("by_stack", "impure", "requests different work");
  ExpectRefused("by_heap", "impure", "requests different work");
  ExpectRefused("freed", "freed_memory", "freed");
}

TEST_F(RecorderTest, ClocksAreRefused) {
  ExpectRefused("counter_of_cycles", "impure", "reads a clock");
  ExpectRefused("time_of_day", "impure", "reads a clock");
}

TEST_F(RecorderTest, RecheckFindsDependenceOnTheProcess) {
  constexpr int kTries = 24;  // detected only if the processes differ in one bit of an address
  int found = 0;
  for (int i = 0; i < kTries && found == 0; ++i) {
    PlanOf(Record("by_code"));
    const auto checked = recorder().Recheck();
    ASSERT_TRUE(checked);
    if (const auto* refusal = std::get_if<Refusal>(&*checked)) {
      EXPECT_EQ(refusal->code, "impure");
      EXPECT_THAT(refusal->message, HasSubstr("another process"));
      ++found;
    }
  }
  EXPECT_EQ(found, 1);
}

TEST_F(RecorderTest, RecheckFindsDependenceOnEarlierShapes) {
  PlanOf(Record("forward"));
  PlanOf(Record("by_earlier_shape", {Floats(std::vector<float>(100))}));
  const auto fine = recorder().Recheck();
  ASSERT_TRUE(fine);
  EXPECT_TRUE(std::holds_alternative<std::monostate>(*fine));
  PlanOf(Record("by_earlier_shape", {Floats(std::vector<float>(5000))}));
  const auto changed = recorder().Recheck();
  ASSERT_TRUE(changed);
  ASSERT_TRUE(std::holds_alternative<Refusal>(*changed));
  EXPECT_EQ(std::get<Refusal>(*changed).code, "impure");
}

TEST_F(RecorderTest, RecheckFindsWhatTheFirstSizeDecides) {
  PlanOf(Record("shared_raised_once", {Floats(std::vector<float>(25000))}));
  PlanOf(Record("shared_raised_once", {Floats(std::vector<float>(15000))}));
  const auto checked = recorder().Recheck();
  ASSERT_TRUE(checked);
  ASSERT_TRUE(std::holds_alternative<Refusal>(*checked));
  EXPECT_EQ(std::get<Refusal>(*checked).code, "illegal_launch");
  EXPECT_THAT(std::get<Refusal>(*checked).message,
              HasSubstr("in a process that is called with smaller sizes first"));
}

TEST_F(RecorderTest, IllegalLaunchesNameKernelAndLimit) {
  ExpectRefused("empty_grid", "illegal_launch", "grid (0, 1, 1)", "Scale");
  ExpectRefused("big_block", "illegal_launch", "1024 threads");
  ExpectRefused("shared_ignored", "illegal_launch", "the limit is 49152");
  const plan::Plan looked = PlanOf(Record("shared_looked"));
  EXPECT_EQ(std::get<plan::Launch>(looked.nodes.at(0).work).dynamic_shared, 1024u);
  const plan::Plan raised = PlanOf(Record("shared_raised"));
  EXPECT_EQ(std::get<plan::Launch>(raised.nodes.at(0).work).dynamic_shared, 100000u);
}

TEST_F(RecorderTest, RecordsTensorMapsInParameters) {
  const plan::Plan plan = PlanOf(Record("map_by_runtime"));
  ASSERT_EQ(plan.nodes.size(), 1u);
  const auto& launch = std::get<plan::Launch>(plan.nodes[0].work);
  ASSERT_EQ(launch.tensor_maps.size(), 2u) << plan::Describe(plan);
  EXPECT_EQ(launch.tensor_maps[0].at, 0u);
  EXPECT_EQ(launch.tensor_maps[0].address, (plan::Address{0, 0}));
  EXPECT_EQ(launch.tensor_maps[1].address, (plan::Address{1, 16}));
  EXPECT_EQ(launch.tensor_maps[1].at % 64, 0u);
  plan::TensorMap map;
  map.type = plan::TensorMapType::kF32;
  map.rank = 2;
  map.dims = {4, 75};
  map.strides = {16};
  map.box = {4, 8};
  map.element_strides = {1, 1};
  map.l2_promotion = plan::L2Promotion::k128B;
  EXPECT_EQ(launch.tensor_maps[0].map, map);
  EXPECT_EQ(launch.relocations.size(), 1u);
  EXPECT_EQ(launch.parameters.substr(0, 128), std::string(128, '\0'));
  EXPECT_EQ(launch.places, (std::vector<uint32_t>{0, 128}));
  plan::Plan by_name = PlanOf(Record("map_by_name"));
  by_name.function = plan.function;
  EXPECT_EQ(by_name, plan);
}

TEST_F(RecorderTest, RecordsTensorMapsInCopiedBytes) {
  const plan::Plan plan = PlanOf(Record("map_in_memory"));
  const auto& upload = std::get<plan::Upload>(plan.nodes.at(0).work);
  ASSERT_EQ(upload.tensor_maps.size(), 1u);
  EXPECT_EQ(upload.tensor_maps[0].address, (plan::Address{0, 0}));
  EXPECT_EQ(upload.bytes, std::string(128, '\0'));
}

TEST_F(RecorderTest, WrongTensorMapsGiveTheDriversError) {
  ExpectRefused("map_too_large", "host_exception",
                "my check: CUDA_ERROR_INVALID_VALUE (cuTensorMapEncodeTiled returned "
                "CUDA_ERROR_INVALID_VALUE: the box must have 1 to 256 elements per dimension)");
  PlanOf(Record("map_unaligned"));
  ExpectRefused("map_depends_on_address", "impure", "depends on device addresses");
  ExpectRefused("unknown_driver_function", "unsupported_api",
                "the CUDA driver's function cuMemCreate is not supported", "cuMemCreate");
}

TEST_F(RecorderTest, RecordsClusters) {
  const auto launched = [&](const char* function) {
    return std::get<plan::Launch>(PlanOf(Record(function)).nodes.at(0).work);
  };
  const auto cluster = [&](const char* function) { return launched(function).cluster; };
  EXPECT_EQ(cluster("cluster_of_one"), (plan::Dim3{1, 1, 1}));
  EXPECT_TRUE(launched("cluster_of_one").lone_clusters);
  EXPECT_FALSE(launched("forward").lone_clusters);
  EXPECT_EQ(cluster("cluster_of_four"), (plan::Dim3{4, 1, 1}));
  EXPECT_EQ(cluster("cluster_of_sixteen_allowed"), (plan::Dim3{16, 1, 1}));
  EXPECT_EQ(cluster("cluster_of_kernel"), (plan::Dim3{2, 1, 1}));
  ExpectRefused("cluster_of_sixteen", "illegal_launch",
                "cudaFuncAttributeNonPortableClusterSizeAllowed raises this to 16");
  ExpectRefused("cluster_event", "unsupported_api", "cudaLaunchAttributeProgrammaticEvent");
  const plan::Plan plan = PlanOf(Record("cluster_occupancy"));
  EXPECT_THAT(plan::Describe(plan), HasSubstr("Scale"));
  const auto& launch = std::get<plan::Launch>(plan.nodes.at(0).work);
  int clusters = 0;
  float largest = 0;
  std::memcpy(&clusters, launch.parameters.data() + 16, 4);
  std::memcpy(&largest, launch.parameters.data() + 20, 4);
  EXPECT_EQ(clusters, 32);  // of 132 SMs with one block each, in GPCs of 16 and 18
  EXPECT_EQ(largest, 8);
}

/// Knows relu and "first", and refuses all others.
class FakeOperators : public plan::OperatorRunner {
 public:
  Result<std::vector<std::string>> Schemas() override { return std::vector<std::string>(); }
  Result<Json> Describe(const Json& question) override {
    ++questions;
    const bool is_relu = question["name"] == "aten::relu";
    if (!is_relu && question["name"] != "test::first") return Json{{"refused", "not this one"}};
    const int64_t size = is_relu ? 300 : question["arguments"][1]["int"].get<int64_t>();
    Json output{{"dtype", "float32"},          {"shape", Json::array({size})},
                {"strides", Json::array({1})}, {"offset", 0},
                {"bytes", 4 * size},           {"storage", nullptr}};
    if (!is_relu) output["storage"] = 0;
    return Json{{"outputs", Json::array({output})}, {"mutated", Json::array()}};
  }
  Result<std::string> Run(const plan::Operator&, const plan::Arithmetic&,
                          const std::function<std::span<std::byte>(int)>&) override {
    return std::string();
  }
  int questions = 0;
};

TEST_F(RecorderTest, RecordsOperatorsOfPyTorch) {
  const auto operators = std::make_shared<FakeOperators>();
  options_.operators = operators;
  const plan::Plan plan = PlanOf(Record("operators"));
  EXPECT_EQ(plan::Describe(plan),
            "aten::relu reads argument 0 float32[300] writes temporary 1 float32[300]\n"
            "return temporary 1 float32[150]\n");
  EXPECT_EQ(operators->questions, 2);  // for all recordings of the process
}

TEST_F(RecorderTest, RefusesOperatorsWithoutPyTorch) {
  const Refusal refusal = RefusalOf(Record("operators"));
  EXPECT_EQ(refusal.code, "unsupported_operator");
  EXPECT_TRUE(refusal.unsupported);
  EXPECT_THAT(refusal.message, HasSubstr("need PyTorch"));
}

TEST_F(RecorderTest, RejectsWrongCallsAndReturns) {
  ExpectRefused("sideways", "no_function", "it exports forward(x: Tensor)");
  const Refusal arguments = RefusalOf(Record("forward", {task::Value{int64_t{3}}}));
  EXPECT_EQ(arguments.code, "wrong_arguments");
  EXPECT_THAT(arguments.message, HasSubstr("argument 0"));
  ExpectRefused("returns_int", "wrong_return", "an int");
  ExpectRefused("returns_nothing", "wrong_return", "nothing");
}

TEST_F(RecorderTest, RejectsForgedAnswersOfTheChild) {
  ExpectRefused("forge", "host_crash", "damaged the recording process");
  ExpectRefused("says_internal", "host_crash", "damaged the recording process");
  ExpectRefused("too_long", "host_crash", "are not inside buffer");
}

TEST_F(RecorderTest, RejectsForgedPlansOfOtherImages) {
  ExpectRefused("forge_kernel", "host_crash", "a launch does not match a kernel of the candidate");
  ExpectRefused("forge_variable", "host_crash", "a buffer does not match a device variable");
  EXPECT_EQ(PlanOf(Record("forge_plan")).nodes.size(), 1u);
}

TEST_F(RecorderTest, NamesAllMissingFunctions) {
  image_ = TestImage(CUPEL_RECORD_MISSING);
  const Refusal refusal = RefusalOf(Record("forward"));
  EXPECT_EQ(refusal.code, "unsupported_api");
  EXPECT_TRUE(refusal.unsupported);
  EXPECT_THAT(refusal.message, HasSubstr("cublasSasum_v2"));
  EXPECT_THAT(refusal.message, HasSubstr("cufftExecC2C"));
}

TEST_F(RecorderTest, RejectsAnImageOfAnotherToolkit) {
  image_.toolkit = "nvcc 11.8.89";
  const auto started = Recorder::Start(build::OneImage(image_), device::All().front(), options_);
  ASSERT_FALSE(started);
  EXPECT_EQ(started.error().code, ErrorCode::kEnvironment);
}

TEST_F(RecorderTest, SlowHostCodeIsCalledLessOften) {
  const auto outcome = Record("slow");
  ASSERT_TRUE(std::holds_alternative<Recording>(outcome));
  EXPECT_EQ(std::get<Recording>(outcome).recordings, 24);
  EXPECT_GT(std::get<Recording>(outcome).host_us, 30000);
}

TEST_F(RecorderTest, RecordingTwiceGivesTheSamePlan) {
  const plan::Plan first = PlanOf(Record("forward"));
  const plan::Plan again = PlanOf(Record("forward"));
  EXPECT_EQ(first, again);
}

}  // namespace
}  // namespace cupel::record
