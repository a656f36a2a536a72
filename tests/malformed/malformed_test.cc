// 500 malformed inputs of each kind, for the reader of that kind. The test changes good files at
// random (with a fixed seed) until the reader has rejected 500. Each error must have a message that
// a terminal can show. Files that are still valid after a change do not count. Crashes end the
// test, and with CUPEL_SANITIZE so do sanitizer reports.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "base/json.h"
#include "build/elf.h"
#include "judge/record.h"
#include "os/mapped_file.h"
#include "os/temp_dir.h"
#include "plan/codec.h"
#include "ptx/parser.h"
#include "task/case_file.h"
#include "task/config.h"
#include "task/safetensors.h"
#include "task/task.h"

namespace cupel {
namespace {

namespace fs = std::filesystem;

constexpr int kWanted = 500;
constexpr int kMaxTries = 40'000;

std::string Read(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// Reads all files with a suffix in folders of the source tree.
std::vector<std::string> Seeds(const std::vector<std::string>& folders, const std::string& suffix) {
  std::vector<fs::path> paths;
  for (const std::string& folder : folders) {
    for (const auto& entry :
         fs::recursive_directory_iterator(fs::path(CUPEL_SOURCE_DIR) / folder)) {
      if (entry.path().string().ends_with(suffix)) paths.push_back(entry.path());
    }
  }
  std::sort(paths.begin(), paths.end());
  std::vector<std::string> seeds;
  for (const fs::path& path : paths) seeds.push_back(Read(path));
  return seeds;
}

class Mutator {
 public:
  explicit Mutator(std::vector<std::string> seeds) : seeds_(std::move(seeds)) {}

  std::string Next() {
    std::string text = seeds_[Below(seeds_.size())];
    for (size_t changes = 1 + Below(4); changes > 0; --changes) Change(text);
    return text;
  }

 private:
  size_t Below(size_t limit) { return limit == 0 ? 0 : random_() % limit; }

  void Change(std::string& text) {
    static const std::vector<std::string> kOdd = {"-1",
                                                  "1e999",
                                                  "18446744073709551616",
                                                  "null",
                                                  "[]",
                                                  "{}",
                                                  "\"",
                                                  "\\u0000",
                                                  "\xff",
                                                  "[[[[",
                                                  "{{{{",
                                                  "]",
                                                  ";;",
                                                  ".entry",
                                                  "%",
                                                  "-9223372036854775808",
                                                  "nan",
                                                  "true",
                                                  "\"\"",
                                                  ",",
                                                  "\r\n",
                                                  "\x1b[2J"};
    const size_t at = Below(text.size() + 1);
    const size_t length = std::min(text.size() - at, 1 + Below(40));
    switch (Below(6)) {
      case 0:
        text.erase(at, length);
        return;
      case 1:
        text.insert(at, text.substr(at, length));
        return;
      case 2:
        text.replace(at, length, kOdd[Below(kOdd.size())]);
        return;
      case 3:
        if (at < text.size()) text[at] = static_cast<char>(random_());
        return;
      case 4:
        text.resize(at);
        return;
      default: {
        const std::string& other = seeds_[Below(seeds_.size())];
        text.replace(at, length, other.substr(Below(other.size() + 1), length));
      }
    }
  }

  std::mt19937_64 random_{20261120};
  std::vector<std::string> seeds_;
};

/// The message of an error; nothing for a value.
template <typename T>
std::optional<std::string> Message(const Result<T>& result) {
  if (result) return std::nullopt;
  return result.error().message;
}

using Reader = std::function<std::optional<std::string>(const std::string&)>;

void RefuseMany(const std::vector<std::string>& seeds, const Reader& reader) {
  ASSERT_FALSE(seeds.empty());
  for (const std::string& seed : seeds) {
    const auto message = reader(seed);
    ASSERT_FALSE(message) << "a valid file was rejected: " << *message;
  }
  Mutator mutator(seeds);
  int refused = 0;
  for (int i = 0; i < kMaxTries && refused < kWanted; ++i) {
    const std::string input = mutator.Next();
    const auto message = reader(input);
    if (!message) continue;
    ++refused;
    ASSERT_GE(message->size(), 8u) << "the message is too short for: " << input.substr(0, 200);
    ASSERT_LE(message->size(), 2000u);
    ASSERT_TRUE(std::none_of(
        message->begin(), message->end(),
        [](char c) {
          return (static_cast<unsigned char>(c) < ' ' && c != '\n' && c != '\t') || c == '\x7f';
        }))
        << "the message has control characters: " << *message;
  }
  EXPECT_EQ(refused, kWanted);
}

TEST(Malformed, TaskConfigs) {
  RefuseMany(Seeds({"tasks"}, "config_forward.json"), [](const std::string& text) {
    const auto json = ParseJson(text, "config_forward.json");
    if (!json) return Message(json);
    std::vector<task::Setting> settings;
    return Message(task::AppendSettings(*json, "single_", task::SettingKind::kSingle,
                                        "config_forward.json", settings));
  });
}

/// A task folder in which one file is malformed.
TEST(Malformed, TaskFolders) {
  const auto folder = os::TempDir::Create();
  ASSERT_TRUE(folder);
  const fs::path good = fs::path(CUPEL_SOURCE_DIR) / "tasks" / "mnist_linear";
  const fs::path copy = folder->path() / "task";
  fs::create_directory(copy);
  for (const auto& entry : fs::directory_iterator(good)) {
    if (entry.is_regular_file()) fs::copy_file(entry.path(), copy / entry.path().filename());
  }
  RefuseMany({Read(good / "config_forward.json")}, [&](const std::string& text) {
    std::ofstream(copy / "config_forward.json", std::ios::binary) << text;
    return Message(task::LoadTask(copy.string(), folder->path()));
  });
}

TEST(Malformed, Plans) {
  RefuseMany(Seeds({"fuzz/seeds/plan"}, ".json"), [](const std::string& text) {
    const auto json = ParseJson(text, "plan.json");
    return json ? Message(plan::FromJson(*json, "plan.json")) : Message(json);
  });
}

TEST(Malformed, VerdictRecords) {
  RefuseMany(Seeds({"fuzz/seeds/verdict"}, ".json"), [](const std::string& text) {
    return Message(judge::ReadRecord(text, "verdict.json"));
  });
}

TEST(Malformed, Safetensors) {
  RefuseMany(Seeds({"fuzz/seeds/safetensors"}, ".safetensors"), [](const std::string& text) {
    const auto bytes = std::make_unique<std::byte[]>(text.size());
    std::copy_n(reinterpret_cast<const std::byte*>(text.data()), text.size(), bytes.get());
    return Message(task::ParseSafetensors({bytes.get(), text.size()}, "tensors"));
  });
}

TEST(Malformed, Cases) {
  const auto folder = os::TempDir::Create();
  ASSERT_TRUE(folder);
  const auto read = [&](const std::string& text) -> std::optional<std::string> {
    const fs::path path = folder->path() / "case";
    std::ofstream(path, std::ios::binary) << text;
    auto file = os::MappedFile::Open(path);
    if (!file) return Message(file);
    return Message(task::ReadCase(std::move(*file), "case"));
  };
  // A safetensors file without a case's description is never a case, so every input is malformed.
  Mutator mutator(Seeds({"fuzz/seeds/safetensors"}, ".safetensors"));
  for (int i = 0; i < kWanted; ++i) {
    const auto message = read(mutator.Next());
    ASSERT_TRUE(message);
    ASSERT_GE(message->size(), 8u);
  }
}

TEST(Malformed, Ptx) {
  RefuseMany(Seeds({"tests/ptx"}, ".ptx"),
             [](const std::string& text) { return Message(ptx::Parse(text)); });
}

TEST(Malformed, SharedObjects) {
  RefuseMany(Seeds({"fuzz/seeds/elf"}, ".so"), [](const std::string& text) {
    const auto bytes = std::make_unique<std::byte[]>(text.size());
    std::copy_n(reinterpret_cast<const std::byte*>(text.data()), text.size(), bytes.get());
    return Message(build::ReadSharedObject({bytes.get(), text.size()}));
  });
}

}  // namespace
}  // namespace cupel
