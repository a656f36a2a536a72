// Plans whose kernels and variables come from two images that use the same names.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "emu/exec/emulator.h"

namespace cupel::emu {
namespace {

using plan::Buffer;
using plan::BufferKind;

// out[0] = state, read through its address in `place`; then state += step.
std::string Ptx(const std::string& step, const std::string& state, const char* more = "") {
  return ".version 8.0\n.target sm_90\n.address_size 64\n.global .align 4 .u32 state = " + state +
         R"(;
.global .align 8 .u64 place = generic(state);
.visible .entry k(.param .u64 out)
{
  .reg .b32 %r<3>;
  .reg .b64 %rd<3>;
  ld.param.u64 %rd1, [out];
  ld.global.u64 %rd2, [place];
  ld.u32 %r1, [%rd2];
  st.global.u32 [%rd1], %r1;
  ld.global.u32 %r1, [state];
  add.u32 %r2, %r1, )" +
         step + R"(;
  st.global.u32 [state], %r2;
  ret;
}
)" + more;
}

// Each block writes one byte.
constexpr const char* kByteKernel = R"(
.visible .entry bytes(.param .u64 out)
{
  .reg .b32 %r<3>;
  .reg .b64 %rd<4>;
  ld.param.u64 %rd1, [out];
  mov.u32 %r1, %ctaid.x;
  cvt.u64.u32 %rd2, %r1;
  add.s64 %rd3, %rd1, %rd2;
  st.global.u8 [%rd3], %r1;
  ret;
}
)";

class ImagesTest : public ::testing::Test {
 protected:
  ImagesTest() {
    for (const auto& [step, state, registers] : {std::tuple("1", "10", 16), {"2", "20", 32}}) {
      build::Image image;
      image.ptx = Ptx(step, state, registers == 32 ? kByteKernel : "");
      image.resources = {{"k", registers, 0, 0, 0, 0, 0}};
      images_.push_back(std::make_shared<const build::Image>(std::move(image)));
    }
    // The variable of image 1 belongs to host code, that of image 0 to the kernels.
    plan_.buffers = {Buffer{BufferKind::kTemporary, 8, -1, ""},
                     Buffer{BufferKind::kSymbol, 4, -1, "state", 1}};
    plan_.nodes = {Launch("k", 0, 0), Launch("k", 1, 4)};
    plan_.outputs = {plan::View{{0, 0}, DType::kI32, {2}, {1}}};
  }

  static plan::Node Launch(const char* kernel, int image, int64_t offset) {
    plan::Launch launch;
    launch.kernel = kernel;
    launch.image = image;
    launch.parameters = std::string(8, '\0');
    launch.relocations = {{0, {0, offset}}};
    return {launch, {}};
  }
  engine::Run Execute() {
    if (!program_) program_ = *MakeEmulator(*device::Find("h100"), {2})->Load(images_);
    ++options_.seed;  // other addresses
    auto run = program_->Execute(plan_, {}, options_);
    EXPECT_TRUE(run.has_value()) << run.error().ToString();
    return run.value_or(engine::Run{});
  }
  static std::vector<int> Output(const engine::Run& run) {
    if (!run.completed) return {};
    std::vector<int> values(run.outputs.at(0).bytes.size() / sizeof(int));
    std::memcpy(values.data(), run.outputs[0].bytes.data(), values.size() * sizeof(int));
    return values;
  }

  build::Images images_;
  plan::Plan plan_;
  engine::RunOptions options_;
  std::unique_ptr<engine::Program> program_;
};

TEST_F(ImagesTest, EqualNamesMeanTheKernelAndVariableOfTheImage) {
  const engine::Run run = Execute();
  EXPECT_EQ(Output(run), (std::vector<int>{10, 20}));
  ASSERT_EQ(run.counters.launches.size(), 2u);
  EXPECT_EQ(run.counters.launches[0].registers, 16);
  EXPECT_EQ(run.counters.launches[1].registers, 32);
}

TEST_F(ImagesTest, HostCodeWritesTheVariableOfOneImage) {
  plan_.nodes.insert(plan_.nodes.begin(),
                     plan::Node{plan::Upload{{1, 0}, std::string("\7\0\0\0", 4), {}, {}}, {}});
  EXPECT_EQ(Output(Execute()), (std::vector<int>{10, 7}));
}

TEST_F(ImagesTest, EachImageKeepsItsVariables) {
  Execute();
  const engine::Run run = Execute();
  EXPECT_EQ(Output(run), (std::vector<int>{11, 22}));
  // A warning for the variable of image 0; the plan names that of image 1.
  ASSERT_EQ(run.findings.size(), 1u);
  EXPECT_EQ(run.findings[0].code, "device_state");
  program_.reset();
  plan_.buffers[1].image = 0;
  plan_.nodes = {Launch("k", 0, 0), Launch("k", 0, 4)};
  EXPECT_TRUE(Execute().findings.empty());
  plan_.nodes[1] = Launch("k", 1, 4);
  EXPECT_EQ(Execute().findings.size(), 1u);
}

TEST_F(ImagesTest, RaceChecksAreAsFineAsTheFinestImageNeeds) {
  options_.full_checks = true;
  plan_.nodes = {plan::Node{plan::Fill{{0, 0}, std::string(1, '\0'), 8}, {}},
                 Launch("bytes", 1, 0)};
  std::get<plan::Launch>(plan_.nodes[1].work).grid = {8, 1, 1};
  const engine::Run run = Execute();
  EXPECT_TRUE(run.findings.empty()) << run.findings[0].message;
  EXPECT_EQ(Output(run), (std::vector<int>{0x03020100, 0x07060504}));
}

TEST_F(ImagesTest, KernelsOfMissingOrOtherImagesAreUnsupported) {
  for (const auto& [kernel, image] : {std::pair("bytes", 0), {"k", 2}}) {
    plan_.nodes = {Launch(kernel, image, 0)};
    const engine::Run run = Execute();
    EXPECT_FALSE(run.completed);
    EXPECT_NE(run.unsupported.find("the image contains no PTX for it"), std::string::npos);
  }
}

}  // namespace
}  // namespace cupel::emu
