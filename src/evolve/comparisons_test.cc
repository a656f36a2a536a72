// SPDX-License-Identifier: Apache-2.0
#include "evolve/comparisons.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/json.h"
#include "os/files.h"
#include "records/json.h"

namespace cupel::evolve {
namespace {

using ::testing::ElementsAre;

class ComparisonsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = *os::TempDir::Create();
    archive::NewRun run;
    run.id = "run";
    run.task = "softmax";
    run.direction = "forward";
    run.task_hash = "abc";
    run.cupel_version = "0.1.0";
    run.config = "{}";
    auto archive = archive::Archive::Create(folder_->path() / "run.cupel", run);
    ASSERT_TRUE(archive) << archive.error().ToString();
    archive_.emplace(*std::move(archive));
    for (const char* source : {"start", "better"}) {
      archive::NewCandidate candidate;
      candidate.source = source;
      candidate.proposer = "tuner";
      ids_.push_back(archive_->AddCandidate(candidate)->id);
    }
  }

  std::optional<os::TempDir> folder_;
  std::optional<archive::Archive> archive_;
  std::vector<int64_t> ids_;
};

TEST_F(ComparisonsTest, AreFoundAgainAsTheyWere) {
  KeptComparison kept;
  kept.verdict.decision = records::Decision::kAccepted;
  kept.verdict.provenance.asked.trials = 1;
  kept.verdict.kernel_path = "candidates/0002/kernel.cu";
  kept.standing.value = 12.5;
  kept.standing.is_better = true;
  kept.standing.samples = {{"single-0", "gpu", "candidate", {1.5, 2.25}},
                           {"single-0", "gpu", "best", {3}}};
  ASSERT_TRUE(KeepComparison(*archive_, ids_[1], {ids_[0], "H200"}, kept, 7));
  const auto found = FindComparison(*archive_, ids_[1], {ids_[0], "H200"});
  ASSERT_TRUE(found) << found.error().ToString();
  ASSERT_TRUE(found->has_value());
  const KeptComparison& again = **found;
  EXPECT_EQ(DumpJson(records::ToJson(again.verdict)), DumpJson(records::ToJson(kept.verdict)));
  EXPECT_TRUE(again.standing.is_better);
  EXPECT_EQ(again.standing.value, 12.5);
  ASSERT_EQ(again.standing.samples.size(), 2u);
  EXPECT_EQ(again.standing.samples[0].subject, "candidate");
  EXPECT_THAT(again.standing.samples[0].us, ElementsAre(1.5, 2.25));
}

TEST_F(ComparisonsTest, WithAnotherBestDoNotCount) {
  KeptComparison kept;
  kept.verdict.provenance.asked.trials = 1;
  kept.standing.value = 12.5;
  ASSERT_TRUE(KeepComparison(*archive_, ids_[1], {0, "H200"}, kept, 7));
  EXPECT_FALSE(FindComparison(*archive_, ids_[1], {ids_[0], "H200"})->has_value());
  EXPECT_FALSE(FindComparison(*archive_, ids_[0], {0, "H200"})->has_value());
  EXPECT_FALSE(FindComparison(*archive_, ids_[1], {0, "H100"})->has_value());
  EXPECT_TRUE(FindComparison(*archive_, ids_[1], {0, "H200"})->has_value());
}

TEST_F(ComparisonsTest, DamagedOnesDoNotCount) {
  for (const char* detail :
       {R"({"best": 0, "device": "H200"})",
        R"({"best": 0, "device": "H200", "value": 1, "samples": [{"us": 3}]})",
        R"({"best": 0, "device": "H200", "value": 1, "samples": [], "verdict": 3})"}) {
    ASSERT_TRUE(archive_->AddStage({ids_[1], "measure", true, detail, 1}));
    const auto found = FindComparison(*archive_, ids_[1], {0, "H200"});
    ASSERT_TRUE(found) << found.error().ToString();
    EXPECT_FALSE(found->has_value()) << detail;
  }
}

}  // namespace
}  // namespace cupel::evolve
