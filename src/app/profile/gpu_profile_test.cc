// Tests the GPU profile with a fake Nsight Compute. Needs no GPU.
// SPDX-License-Identifier: Apache-2.0
#include "app/profile/gpu_profile.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <optional>
#include <sstream>
#include <utility>

#include "app/profile/gpu_profile_text.h"
#include "gpu/ncu_testing.h"
#include "gpu/testing.h"
#include "os/temp_dir.h"
#include "term/text.h"

namespace cupel::app {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class GpuProfileTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto tools = os::TempDir::Create();
    ASSERT_TRUE(tools.has_value());
    tools_.emplace(std::move(*tools));
    build::Image image;
    image.ptx = std::string(gpu::kHead) + gpu::kKernels;
    image.resources = {{"add_one", 12, 0, 0, 8, 16, 0}};
    images_ = build::OneImage(std::move(image));
  }
  void TearDown() override { unsetenv("CUPEL_NCU"); }

  GpuProfile Profile(const std::filesystem::path& ncu) {
    setenv("CUPEL_NCU", ncu.c_str(), 1);
    const std::span<const std::byte> arguments[] = {std::as_bytes(std::span(x_))};
    auto profile =
        ProfileOnGpu({plan_, images_, arguments, device::All()[0], 0, keep_, "/bin/false"});
    EXPECT_TRUE(profile.has_value()) << profile.error().message;
    return profile.value_or(GpuProfile{});
  }

  std::optional<os::TempDir> tools_;
  plan::Plan plan_ = gpu::Launching("add_one");
  build::Images images_;
  std::filesystem::path keep_;
  std::vector<float> x_ = std::vector<float>(100, 2.5f);
};

TEST_F(GpuProfileTest, MatchesLaunchesByOrderIfNamesDiffer) {
  const auto ncu = gpu::FakeNcu(tools_->path());
  std::string raw = gpu::kRawPage;
  raw.replace(raw.find("\"add_one\""), 9, "\"add_one (int)\"");
  std::ofstream(tools_->path() / "raw.csv") << raw;
  const GpuProfile profile = Profile(ncu);
  ASSERT_EQ(profile.launches.size(), 1u);
  EXPECT_EQ(profile.launches[0].launch, 0);
  EXPECT_EQ(profile.launches[0].facts.kernel, "add_one");
}

TEST_F(GpuProfileTest, KeepsTheReport) {
  keep_ = tools_->path() / "kept/single-0";
  Profile(gpu::FakeNcu(tools_->path()));
  for (const char* name : {"plan.json", "image-0.ptx", "argument-0.bin", "report.ncu-rep"}) {
    EXPECT_TRUE(std::filesystem::is_regular_file(keep_ / name)) << name;
  }
}

size_t LinesIn(const std::string& text) {
  return static_cast<size_t>(std::count(text.begin(), text.end(), '\n'));
}

TEST_F(GpuProfileTest, CombinesMetricsResourcesAndCounts) {
  const GpuProfile profile = Profile(gpu::FakeNcu(tools_->path()));
  EXPECT_EQ(profile.source, "Nsight Compute 2025.9.9.1");
  EXPECT_EQ(profile.missing, "");
  EXPECT_EQ(profile.not_emulated, "");
  EXPECT_EQ(profile.must_read_bytes, 400u);
  EXPECT_EQ(profile.must_write_bytes, 400u);
  ASSERT_EQ(profile.launches.size(), 1u);
  EXPECT_EQ(profile.launches[0].launch, 0);
  ASSERT_EQ(profile.emulated.launches.size(), 1u);
  const std::string page = GpuProfileText("title", profile, {});
  for (const char* part :
       {"title\n12.35 us in kernels by Nsight Compute 2025.9.9.1", "add_one<<<4, 64>>>: 12.35 us",
        "bottleneck: DRAM bandwidth, 71 % of the peak", "of the peak: DRAM 71 %, SM 8 %",
        "occupancy 40 % of 50 % possible (limited by shared memory, the block size)",
        "32 registers", "spills: 8 B stored, 16 B loaded per thread", "DRAM 1.05 MB read",
        "8 per load", "bank conflicts: 75 %", "global or local memory 60 %", "barrier 30 %",
        "- [50 %] More warps would fit.", "- [12 % locally] Half of each sector",
        "the emulator counts: bound by", "must read 400 B and write 400 B: 0.0648 GB/s",
        "DRAM moved 1.05 MB in and 2.05 KB out: 1313 x"}) {
    EXPECT_THAT(page, HasSubstr(part));
  }
  const Json launch = ToJson(profile)["launches"][0];
  EXPECT_EQ(launch.value("duration_us", 0.0), 12.3455);
  ASSERT_TRUE(launch.contains("ptxas"));
  EXPECT_EQ(launch["ptxas"]["spill_loads"], 16);
}

TEST_F(GpuProfileTest, ShowsKernelsOfTwoImagesWithEqualNamesOneByOne) {
  build::Image other = *images_[0];
  other.resources[0].registers = 34;
  images_.push_back(std::make_shared<const build::Image>(std::move(other)));
  plan_.nodes.push_back(plan_.nodes[0]);
  std::get<plan::Launch>(plan_.nodes[1].work).image = 1;
  const GpuProfile profile = Profile("/nowhere/ncu");
  EXPECT_EQ(profile.not_emulated, "");
  ASSERT_EQ(profile.emulated.launches.size(), 2u);
  EXPECT_EQ(profile.emulated.launches[1].registers, 34);
  const std::string page = GpuProfileText("title", profile, {});
  EXPECT_THAT(page, HasSubstr("12 registers"));
  EXPECT_THAT(page, HasSubstr("34 registers"));
}

TEST_F(GpuProfileTest, ReportsWhatIsMissingAndShowsTheRest) {
  const GpuProfile profile = Profile("/nowhere/ncu");
  EXPECT_EQ(profile.source, "");
  EXPECT_THAT(profile.missing, HasSubstr("/nowhere/ncu"));
  EXPECT_THAT(profile.missing, HasSubstr("the replay ended with exit status 1"));
  const std::string page = GpuProfileText("title", profile, {});
  EXPECT_THAT(page, HasSubstr("incomplete profile"));
  EXPECT_THAT(page, HasSubstr("12 registers"));
  EXPECT_THAT(page, HasSubstr("the emulator counts"));
  EXPECT_THAT(page, Not(HasSubstr("bottleneck")));
}

/// A profile with very long texts about each kernel.
GpuProfile LongProfile(size_t kernels, int advice) {
  GpuProfile profile;
  profile.source = "Nsight Compute 1";
  profile.missing = std::string(5000, 'm');
  profile.not_emulated = std::string(5000, 'n') + "\n\n";
  profile.all_launches = 1000;
  std::string text;
  for (int w = 0; w < 400; ++w) text += "word ";
  for (size_t i = 0; i < kernels; ++i) {
    GpuLaunch launch;
    launch.facts.kernel = "kernel_" + std::to_string(i) + std::string(300, 'k') + "\n\x1b[31m";
    launch.facts.duration_us = static_cast<double>(i);
    launch.facts.dram_percent = launch.facts.occupancy_percent = 1;
    launch.facts.stalls = {{text, 0.5}, {"barrier", 0.4}};
    for (int k = 0; k < advice; ++k) {
      launch.facts.advice.push_back({"rule", text + "\n" + text, "global", 10});
    }
    profile.launches.push_back(launch);
  }
  return profile;
}

TEST(GpuProfilePage, NeverExceedsOnePage) {
  for (const size_t kernels : {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 40, 200}) {
    for (int advice = 0; advice < 6; ++advice) {
      const std::string page = GpuProfileText("a title", LongProfile(kernels, advice), {});
      EXPECT_LE(LinesIn(page), kPageLines) << kernels << " kernels, advice " << advice;
      EXPECT_THAT(page, Not(HasSubstr("\x1b")));
      std::istringstream lines(page);
      for (std::string line; std::getline(lines, line);) {
        EXPECT_LE(Width(line), judge::kProfileWidth);
      }
    }
  }
}

TEST(GpuProfilePage, GroupsEqualLaunchesSlowestFirst) {
  GpuProfile profile;
  for (const auto& [name, us] : {std::pair("quick", 1.0), {"slow", 9.0}, {"slow", 12.0}}) {
    GpuLaunch launch;
    launch.facts.kernel = name;
    launch.facts.duration_us = us;
    profile.launches.push_back(launch);
  }
  const std::string page = GpuProfileText("a title", profile, {});
  EXPECT_THAT(page, HasSubstr("slow<<<1, 1>>>: 2 launches, 21 us together, the slowest 12 us"));
  EXPECT_LT(page.find("slow<<<"), page.find("quick<<<"));
}

}  // namespace
}  // namespace cupel::app
