// Runs a harness on its seeds and on mutations of them for a given time. It has no coverage
// feedback, so it runs in any build and on any machine, and finds what small changes to a valid
// file break. It prints the random seed; --seed repeats the run. SPDX-License-Identifier:
// Apache-2.0
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#include "harness.h"

namespace cupel::fuzz {
namespace {

// The input that runs now, for the signal handler.
std::string_view current_input;

/// Writes the failing input to a file in the current folder. Async-signal-safe.
extern "C" void KeepFinding(int signal) {
  static constexpr char kName[] = "fuzz-finding";
  const int file = open(kName, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  size_t written = 0;
  while (file >= 0 && written < current_input.size()) {
    const ssize_t count =
        write(file, current_input.data() + written, current_input.size() - written);
    if (count <= 0) break;
    written += static_cast<size_t>(count);
  }
  static constexpr char kMessage[] = "the failing input is in the file fuzz-finding\n";
  if (file >= 0 && write(STDERR_FILENO, kMessage, sizeof kMessage - 1) < 0) _exit(1);
  std::signal(signal, SIG_DFL);
  raise(signal);
}

void Try(std::string_view input) {
  current_input = input;
  RunOne(input);
}

constexpr size_t kMaxInputBytes = 1u << 20;

struct Options {
  double seconds = 2;
  uint64_t seed = std::random_device{}();
  std::vector<std::filesystem::path> folders;
};

bool ParseOptions(int argc, char** argv, Options* options) {
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    if (argument == "--seconds" && i + 1 < argc) {
      options->seconds = std::strtod(argv[++i], nullptr);
    } else if (argument == "--seed" && i + 1 < argc) {
      options->seed = std::strtoull(argv[++i], nullptr, 10);
    } else if (argument.starts_with("--")) {
      return false;
    } else {
      options->folders.emplace_back(argument);
    }
  }
  if (const char* seconds = std::getenv("CUPEL_FUZZ_SECONDS"); seconds != nullptr) {
    options->seconds = std::strtod(seconds, nullptr);
    options->seed = std::random_device{}();
  }
  return !options->folders.empty();
}

std::vector<std::string> ReadSeeds(const std::vector<std::filesystem::path>& folders) {
  std::vector<std::filesystem::path> paths;
  for (const auto& folder : folders) {
    if (!std::filesystem::is_directory(folder)) continue;  // no regressions yet
    for (const auto& entry : std::filesystem::directory_iterator(folder)) {
      if (entry.is_regular_file()) paths.push_back(entry.path());
    }
  }
  std::sort(paths.begin(), paths.end());  // folders list files in different orders
  std::vector<std::string> seeds;
  for (const auto& path : paths) {
    std::ifstream file(path, std::ios::binary);
    seeds.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
  }
  return seeds;
}

class Mutator {
 public:
  Mutator(uint64_t seed, const std::vector<std::string>& seeds) : random_(seed), seeds_(seeds) {}

  std::string Next() {
    std::string text = seeds_[Below(seeds_.size())];
    for (size_t count = 1 + Below(8); count > 0; --count) Mutate(&text);
    if (text.size() > kMaxInputBytes) text.resize(kMaxInputBytes);
    return text;
  }

 private:
  size_t Below(size_t limit) { return limit == 0 ? 0 : static_cast<size_t>(random_()) % limit; }

  void Mutate(std::string* text) {
    const size_t at = Below(text->size() + 1);
    const size_t length = std::min(text->size() - at, 1 + Below(Below(4) == 0 ? 512 : 12));
    switch (Below(7)) {
      case 0:
        text->erase(at, length);
        return;
      case 1:
        text->insert(at, text->substr(at, length));
        return;
      case 2: {
        const std::string& other = seeds_[Below(seeds_.size())];
        text->replace(at, length, other.substr(Below(other.size() + 1), length));
        return;
      }
      case 3:
        if (at < text->size()) (*text)[at] = static_cast<char>(random_());
        return;
      case 4:
        if (at < text->size()) (*text)[at] = static_cast<char>((*text)[at] ^ (1 << Below(7)));
        return;
      case 5:
        text->replace(at, length, kInteresting[Below(kInteresting.size())]);
        return;
      default:
        text->resize(at);
    }
  }

  static constexpr auto kInteresting = std::to_array<const char*>({"0",
                                                                   "-1",
                                                                   "4294967296",
                                                                   "-9223372036854775808",
                                                                   "18446744073709551615",
                                                                   "1e999",
                                                                   "{",
                                                                   "}",
                                                                   "[",
                                                                   "]",
                                                                   "\"",
                                                                   "\\",
                                                                   ";",
                                                                   "(",
                                                                   ")",
                                                                   "{{{{{{{{",
                                                                   "[[[[[[[[",
                                                                   "<1048576>",
                                                                   "null",
                                                                   "//",
                                                                   "/*"});

  std::mt19937_64 random_;
  const std::vector<std::string>& seeds_;
};

int Main(int argc, char** argv) {
  Options options;
  if (!ParseOptions(argc, argv, &options)) {
    fmt::print(stderr, "usage: {} [--seconds S] [--seed N] FOLDER...\n", argv[0]);
    return 2;
  }
  const std::vector<std::string> seeds = ReadSeeds(options.folders);
  if (seeds.empty()) {
    fmt::print(stderr, "no seeds in {}\n", options.folders[0].string());
    return 2;
  }
  fmt::print("{} seeds; repeat with --seed {}\n", seeds.size(), options.seed);
  std::fflush(stdout);
  for (const int signal : {SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGILL}) {
    const auto before = std::signal(signal, KeepFinding);
    if (before != SIG_DFL) std::signal(signal, before);  // a sanitizer's handler reports more
  }
  for (const std::string& seed : seeds) Try(seed);
  Mutator mutator(options.seed, seeds);
  const auto start = std::chrono::steady_clock::now();
  size_t runs = 0;
  while (std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() <
         options.seconds) {
    Try(mutator.Next());
    ++runs;
  }
  fmt::print("{} mutations\n", runs);
  return 0;
}

}  // namespace
}  // namespace cupel::fuzz

int main(int argc, char** argv) { return cupel::fuzz::Main(argc, argv); }
