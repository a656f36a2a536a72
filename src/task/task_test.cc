// SPDX-License-Identifier: Apache-2.0
#include "task/task.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "os/temp_dir.h"

namespace cupel::task {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class TaskTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto folder = os::TempDir::Create();
    ASSERT_TRUE(folder);
    folder_.emplace(std::move(*folder));
    fs::create_directory(path());
  }
  fs::path path() const { return folder_->path() / "my_task"; }
  void Write(const std::string& name, const std::string& text) const {
    fs::create_directories((path() / name).parent_path());
    std::ofstream(path() / name) << text;
  }
  Result<Task> Load() const { return LoadTask(path().string(), "/nonexistent"); }

  std::optional<os::TempDir> folder_;
};

TEST_F(TaskTest, ListsProductInPublishedOrder) {
  Write("func_forward.py", "");
  Write("config_forward.json", R"({
    "single_input_configs": [{"b": 1}], "single_init_configs": [{"o": 2}],
    "single_shared_configs": [{"k": 3}],
    "multi_input_configs": [{"b": 1}, {"b": 2}], "multi_init_configs": [{"o": 2}, {"o": 4}],
    "multi_shared_configs": [{"k": 3}]})");
  const auto task = Load();
  ASSERT_TRUE(task) << task.error().message;
  const auto& settings = task->SettingsOf(Direction::kForward);
  ASSERT_EQ(settings.size(), 6u);  // 5 listed, 1 derived
  EXPECT_EQ(settings[0].id, "single-0");
  EXPECT_EQ(settings[0].kind, SettingKind::kSingle);
  EXPECT_EQ(settings[1].Describe(), "b=1 k=3 o=2");
  EXPECT_EQ(settings[2].Describe(), "b=2 k=3 o=2");  // the input varies before the init
  EXPECT_EQ(settings[3].Describe(), "b=1 k=3 o=4");
  EXPECT_EQ(settings[4].id, "multi-3");
  EXPECT_EQ(settings[0].init, Json::parse(R"({"o":2,"k":3})"));
  EXPECT_EQ(settings[0].inputs, Json::parse(R"({"b":1,"k":3})"));
  EXPECT_FALSE(task->Has(Direction::kBackward));
  EXPECT_EQ(task->title, "my_task");
}

TEST_F(TaskTest, AcceptsMissingListsAndSkipsRepetitions) {
  Write("func_forward.py", "");
  Write("config_forward.json",
        R"({"single_input_configs": [{"b": 1}], "multi_init_configs": [{}, {}, {"o": 1}]})");
  const auto task = Load();
  ASSERT_TRUE(task) << task.error().message;
  const auto& settings = task->SettingsOf(Direction::kForward);
  ASSERT_EQ(settings.size(), 4u);        // 3 listed, 1 derived
  EXPECT_EQ(settings[2].id, "multi-2");  // the position in the product; multi-1 repeats multi-0
  Write("config_forward.json", "{}");
  const auto bare = Load();
  ASSERT_TRUE(bare);
  EXPECT_EQ(bare->SettingsOf(Direction::kForward).size(), 1u);
}

TEST_F(TaskTest, DerivesHeldOutSettingsIfTheTaskHasNone) {
  Write("func_forward.py", "");
  Write("config_forward.json", R"({"single_input_configs": [{"batch_size": 64}]})");
  const auto derived = Load();
  ASSERT_TRUE(derived) << derived.error().message;
  const auto& settings = derived->SettingsOf(Direction::kForward);
  ASSERT_EQ(settings.size(), 5u);
  EXPECT_EQ(settings[0].derived, "");
  EXPECT_EQ(settings[1].derived, "batch_size=1");
  EXPECT_EQ(settings[1].id, "heldout-0");
  EXPECT_EQ(settings[1].Describe(), "batch_size=1");
  Write("task.json", R"({"heldout_forward": {"input_configs": [{"batch_size": 7}]}})");
  const auto own = Load();
  ASSERT_TRUE(own) << own.error().message;
  ASSERT_EQ(own->SettingsOf(Direction::kForward).size(), 2u);
  EXPECT_EQ(own->SettingsOf(Direction::kForward)[1].derived, "");
}

TEST_F(TaskTest, TaskJsonAddsTitleAndHeldOutSettings) {
  Write("func_forward.py", "");
  Write("config_forward.json", R"({"single_input_configs": [{"b": 1}]})");
  Write("task.json", R"({"title": "T", "heldout_forward": {"input_configs": [{"b": 7}]}})");
  const auto task = Load();
  ASSERT_TRUE(task) << task.error().message;
  EXPECT_EQ(task->title, "T");
  ASSERT_EQ(task->SettingsOf(Direction::kForward).size(), 2u);
  EXPECT_EQ(task->SettingsOf(Direction::kForward)[1].id, "heldout-0");
}

TEST_F(TaskTest, ReadsDomainAndRejectsMalformedOnes) {
  Write("func_forward.py", "");
  Write("config_forward.json", "{}");
  Write("task.json", R"({"domain": {"include": ["nan", "strided"], "exclude": ["normal"]}})");
  const auto task = Load();
  ASSERT_TRUE(task) << task.error().message;
  EXPECT_TRUE(task->domain.Judges(Distribution::kNan));
  EXPECT_TRUE(task->domain.Judges(Distribution::kZeros));
  EXPECT_FALSE(task->domain.Judges(Distribution::kInfinity));
  EXPECT_TRUE(task->domain.Excludes(Distribution::kNormal));
  EXPECT_FALSE(task->domain.Excludes(Distribution::kUniform));
  for (const char* wrong :
       {R"({"domain": []})", R"({"domain": {"include": "nan"}})", R"({"domain": {"except": []}})",
        R"({"domain": {"include": [1]}})", R"({"domain": {"include": ["usual"]}})",
        R"({"domain": {"include": ["nan"], "exclude": ["nan"]}})"}) {
    Write("task.json", wrong);
    const auto broken = Load();
    ASSERT_FALSE(broken) << wrong;
    EXPECT_THAT(broken.error().message, HasSubstr("task.json")) << wrong;
    EXPECT_THAT(broken.error().message, HasSubstr("domain")) << wrong;
  }
}

TEST_F(TaskTest, ReadsWhetherOperatorsAreAllowed) {
  Write("func_forward.py", "");
  Write("config_forward.json", "{}");
  EXPECT_FALSE(Load()->operators.Allow("aten::sum"));
  Write("task.json", R"({"operators": "none"})");
  EXPECT_FALSE(Load()->operators.Allow("aten::sum"));
  Write("task.json", R"({"operators": "allowed"})");
  EXPECT_TRUE(Load()->operators.Allow("aten::sum"));
  Write("task.json", R"({"operators": ["aten::sum", "aten::add.Scalar", "aten::mul_"]})");
  for (const char* allowed : {"aten::sum", "aten::sum.dim_IntList", "aten::sum_",
                              "aten::add.Scalar", "aten::mul_.Tensor"}) {
    EXPECT_TRUE(Load()->operators.Allow(allowed)) << allowed;
  }
  for (const char* other :
       {"aten::cumsum", "aten::add.Tensor", "aten::sum2", "prims::sum", "aten::mul.Tensor"}) {
    EXPECT_FALSE(Load()->operators.Allow(other)) << other;
  }
  Write("task.json", R"({"operators": []})");
  EXPECT_FALSE(Load()->operators.Allow("aten::sum"));
  for (const char* wrong :
       {R"({"operators": "some"})", R"({"operators": true})", R"({"operators": ["sum"]})",
        R"({"operators": ["allowed"]})", R"({"operators": ["aten::"]})", R"({"operators": [1]})"}) {
    Write("task.json", wrong);
    ASSERT_FALSE(Load()) << wrong;
    EXPECT_THAT(Load().error().message, HasSubstr("operators")) << wrong;
  }
}

TEST(Distributions, NamesRoundTrip) {
  for (int i = 0; i <= static_cast<int>(Distribution::kShifted); ++i) {
    const auto distribution = static_cast<Distribution>(i);
    EXPECT_EQ(DistributionNamed(Name(distribution)), distribution);
  }
  EXPECT_FALSE(DistributionNamed("bogus"));
  EXPECT_EQ(Name(Distribution::kHugeOffset), "huge_offset");
  EXPECT_EQ(Name(Distribution::kShifted), "shifted");
  EXPECT_TRUE(IsJudgedByDefault(Distribution::kExtremes));
  EXPECT_FALSE(IsJudgedByDefault(Distribution::kDenormals));
}

TEST_F(TaskTest, ErrorsNameFileAndRemedy) {
  EXPECT_THAT(Load().error().ToString(), HasSubstr("func_forward.py"));
  Write("func_forward.py", "");
  const Error missing = Load().error();
  EXPECT_THAT(missing.message, HasSubstr("config_forward.json"));
  EXPECT_THAT(missing.remedy, HasSubstr("single_input_configs"));
  Write("config_forward.json", "{\"single_input_configs\": [{]}");
  EXPECT_THAT(Load().error().message, HasSubstr("config_forward.json"));
  Write("config_forward.json", R"({"single_input_configs": {"b": 1}})");
  EXPECT_THAT(Load().error().message, HasSubstr("single_input_configs"));
  Write("config_forward.json", R"({"single_input_config": [{"b": 1}]})");
  EXPECT_THAT(Load().error().message, HasSubstr("unknown member \"single_input_config\""));
  EXPECT_THAT(Load().error().remedy, HasSubstr("did you mean single_input_configs?"));
  Write("config_forward.json", R"({"comment": "ours", "single_input_configs": [{"b": 1}]})");
  EXPECT_TRUE(Load());
  Write("config_forward.json", "[]");
  EXPECT_THAT(Load().error().message, HasSubstr("config_forward.json"));
  Write("config_forward.json", "{}");
  Write("task.json", R"({"titel": "misspelt"})");
  EXPECT_THAT(Load().error().message, HasSubstr("titel"));
  EXPECT_THAT(Load().error().remedy, HasSubstr("title"));
  const Error unknown = LoadTask("no_such", fs::path(CUPEL_SOURCE_DIR) / "tasks").error();
  EXPECT_EQ(unknown.code, ErrorCode::kNotFound);
  EXPECT_THAT(unknown.remedy, HasSubstr("mnist_linear"));
}

TEST_F(TaskTest, ListsNamedBaselines) {
  Write("func_forward.py", "");
  Write("config_forward.json", "{}");
  const auto plain = Load();
  ASSERT_TRUE(plain) << plain.error().ToString();
  EXPECT_TRUE(plain->named_baselines.empty());
  Write("baselines/second.py", "def second(x): return x");
  Write("baselines/first.py", "def first(x): return x");
  Write("baselines/_parts.py", "");
  Write("baselines/._first.py", "");
  Write("baselines/notes.txt", "");
  const auto task = Load();
  ASSERT_TRUE(task) << task.error().ToString();
  ASSERT_EQ(task->named_baselines.size(), 2u);
  EXPECT_EQ(task->named_baselines[0].name, "first");
  EXPECT_EQ(task->named_baselines[1].function, "second");
  EXPECT_EQ(task->content_hash[0], plain->content_hash[0]) << "not a part of the question";
  for (const char* bad : {"baselines/two words.py", "baselines/eager.py", "baselines/1st.py"}) {
    Write(bad, "");
    EXPECT_FALSE(Load()) << bad;
    fs::remove(path() / bad);
  }
}

TEST_F(TaskTest, ContentHashChangesWithCode) {
  Write("func_forward.py", "a = 1");
  Write("config_forward.json", "{}");
  const std::string first = Load()->content_hash[0];
  EXPECT_EQ(first, Load()->content_hash[0]);
  Write("func_forward.py", "a = 2");
  EXPECT_NE(first, Load()->content_hash[0]);
  Write("func_forward.py", "a = 1");
  Write("helper.py", "b = 1");  // the task may import it
  EXPECT_NE(first, Load()->content_hash[0]);
}

TEST_F(TaskTest, ReadsAKernelBenchProblem) {
  Write("1_Problem.py", "class Model: pass\ndef get_inputs(): pass\ndef get_init_inputs(): pass\n");
  const auto task = LoadTask((path() / "1_Problem.py").string(), "/nonexistent");
  ASSERT_TRUE(task) << task.error().message;
  EXPECT_EQ(task->format, Format::kKernelBench);
  EXPECT_EQ(task->name, "1_Problem");
  EXPECT_EQ(task->SettingsOf(Direction::kForward).size(), 1u);
  Write("other.py", "print(1)");
  EXPECT_THAT(LoadTask((path() / "other.py").string(), "").error().message, HasSubstr("Model"));
}

TEST(OurTasks, AllLoadWithSettingsAndBaselines) {
  const fs::path root = fs::path(CUPEL_SOURCE_DIR) / "tasks";
  const auto names = ListTasks(root);
  ASSERT_TRUE(names);
  EXPECT_GE(names->size(), 5u);
  for (const std::string& name : *names) {
    const auto task = LoadTask(name, root);
    ASSERT_TRUE(task) << name << ": " << task.error().message;
    EXPECT_EQ(task->name, name);
    for (Direction direction : {Direction::kForward, Direction::kBackward}) {
      if (!task->Has(direction)) continue;
      EXPECT_FALSE(task->baseline[static_cast<size_t>(direction)].empty()) << name;
      EXPECT_EQ(task->SettingsOf(direction).back().kind, SettingKind::kHeldout) << name;
    }
  }
  const auto linear = LoadTask("mnist_linear", root);
  EXPECT_EQ(linear->SettingsOf(Direction::kForward).size(), 10u);  // 1 single, 8 multi, 1 held out
  EXPECT_EQ(linear->SettingsOf(Direction::kBackward).size(), 10u);
}

}  // namespace
}  // namespace cupel::task
