// SPDX-License-Identifier: Apache-2.0
#include "evolve/novelty.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>
#include <sstream>
#include <string>

#include "build/source_scan.h"
#include "evolve/own_names.h"
#include "evolve/tunables.h"

namespace cupel::evolve {
namespace {

namespace fs = std::filesystem;

constexpr const char* kKernel = R"(#include <torch/extension.h>
// Adds rows.
template <typename T, int kTile>
__global__ void __launch_bounds__(256) add_rows(const T* __restrict__ a, const T* b, T* out, int n) {
  __shared__ float tile[kTile], other[4];
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  float4 v = reinterpret_cast<const float4*>(a)[i];
  for (int k = 0, last = n - 1; k < last; ++k) tile[k] = sqrtf(v.x) + 1.0f;
  if (i < n) out[i] = a[i] + b[i] * INFINITY;
}
torch::Tensor forward(torch::Tensor a, torch::Tensor b) {
  TORCH_CHECK(a.size(0) > 0, "empty");
  auto out = torch::empty_like(a);
  dim3 grid(16);
  add_rows<float, 32><<<grid, 256>>>(a.data_ptr<float>(), b.data_ptr<float>(), out.data_ptr<float>(), 7);
  return out;
}
PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward, "adds"); }
)";

std::string With(std::string source, const std::map<std::string, std::string>& changes) {
  for (const auto& change : changes) {
    const size_t at = source.find(change.first);
    EXPECT_NE(at, std::string::npos) << change.first;
    source.replace(at, change.first.size(), change.second);
  }
  return source;
}

/// Renames words wherever they occur as whole tokens.
std::string Renamed(const std::string& source,
                    const std::map<std::string_view, std::string>& names) {
  std::string renamed;
  size_t at = 0;
  for (const Token& token : Tokenize(source)) {
    const auto name = names.find(token.text);
    if (token.kind != Token::Kind::kWord || name == names.end()) continue;
    renamed += source.substr(at, token.begin - at) + name->second;
    at = token.begin + token.text.size();
  }
  return renamed + source.substr(at);
}

std::string AllRenamed(const std::string& source) {
  return Renamed(source, {{"T", "scalar"},
                          {"kTile", "WIDTH"},
                          {"add_rows", "kernel"},
                          {"a", "lhs"},
                          {"b", "rhs"},
                          {"out", "result"},
                          {"n", "count"},
                          {"tile", "stage"},
                          {"other", "spare"},
                          {"i", "index"},
                          {"v", "quad"},
                          {"k", "step"},
                          {"last", "end"},
                          {"grid", "blocks"}});
}

std::vector<std::pair<std::string, std::string>> Kernels() {
  std::vector<std::pair<std::string, std::string>> kernels;
  for (const char* folder : {"tests/mustpass", "tasks"}) {
    for (const auto& entry :
         fs::recursive_directory_iterator(fs::path(CUPEL_SOURCE_DIR) / folder)) {
      if (entry.path().extension() != ".cu") continue;
      std::ifstream file(entry.path());
      std::ostringstream text;
      text << file.rdbuf();
      kernels.emplace_back(entry.path().string(), text.str());
    }
  }
  std::sort(kernels.begin(), kernels.end());
  return kernels;
}

void Print(const std::string& what, std::vector<double> values) {
  ASSERT_FALSE(values.empty());
  std::sort(values.begin(), values.end());
  const auto at = [&](double share) {
    return values[static_cast<size_t>(share * static_cast<double>(values.size() - 1))];
  };
  std::cout << fmt::format("{:<28} {:>5}: least {:.4f}, median {:.4f}, 99 % {:.4f}, most {:.4f}\n",
                           what, values.size(), at(0), at(0.5), at(0.99), at(1));
}

TEST(Novelty, IgnoresNamesCommentsMessagesAndLayout) {
  const Shingles kernel(kKernel);
  std::string changed = With(AllRenamed(kKernel), {{"// Adds rows.", "/* Wide\n loads */"},
                                                   {"\"empty\"", "\"no rows\""},
                                                   {"1.0f", "1.f"},
                                                   {"256>>>", "0x100>>>"},
                                                   {"return result;", "return\n  result ;"}});
  EXPECT_EQ(Similarity(kernel, Shingles(changed)), 1);
  EXPECT_TRUE(IsCopy(kernel, Shingles(changed)));
}

TEST(Novelty, ChangedBehaviourIsNotACopy) {
  const std::map<std::string, std::string> changes = {
      {"float, 32>", "float, 64>"},
      {"1.0f", "1.0"},
      {"i < n", "i <= n"},
      {"blockIdx.x", "blockIdx.y"},
      {"sqrtf(", "rsqrtf("},
      {"float4 v", "float2 v"},
      {"INFINITY", "FLT_MAX"},
      {"__restrict__ ", ""},
      {"b[i] *", "a[i] *"},
      {"<torch/", "<cuda/"},
      {"  const int i", "  __syncthreads();\n  const int i"}};
  const Shingles kernel(kKernel);
  for (const auto& change : changes) {
    const Shingles changed(With(kKernel, {change}));
    EXPECT_FALSE(IsCopy(kernel, changed)) << change.first;
    EXPECT_FALSE(IsCopy(kernel, Shingles(AllRenamed(With(kKernel, {change}))))) << change.first;
    EXPECT_GT(Similarity(kernel, changed), 0.8) << change.first;
  }
  // The text of assembly counts.
  EXPECT_FALSE(IsCopy(Shingles("asm volatile(\"bar.sync 0;\");"),
                      Shingles("asm volatile(\"bar.sync 1;\");")));
}

TEST(Novelty, InsertionChangesOnlyNearbyRuns) {
  const Shingles kernel(kKernel);
  const Shingles longer(With(kKernel, {{"__shared__", "float first_of_all = 0; __shared__"}}));
  EXPECT_GT(Similarity(kernel, longer), 0.9);
  EXPECT_LT(Similarity(kernel, longer), 1);
}

TEST(Novelty, CodeInStringsOfProgramsIsCode) {
  const std::string program =
      "\"\"\"A layer.\"\"\"\nimport torch  # a comment\nflags = ['-O3']\nsource = '''\n__global__ "
      "void k(float* x) {\n  x[0] = 1;  // set\n"
      "}\n'''\nclass ModelNew:\n  def forward(self, x):\n    return op.k(x, x.size(0) // 2)\n";
  const auto is_copy = [&](const std::string& from, const std::string& to) {
    std::string changed = program;
    changed.replace(changed.find(from), from.size(), to);
    return IsCopy(Shingles(CodeOfProgram(program)), Shingles(CodeOfProgram(changed)));
  };
  EXPECT_TRUE(is_copy("# a comment", "# another"));
  EXPECT_TRUE(is_copy("A layer.", "Another text."));
  EXPECT_FALSE(is_copy("-O3", "-O2"));
  EXPECT_TRUE(is_copy("// set", "/* another */"));
  EXPECT_FALSE(is_copy("x[0] = 1", "x[0] = 2"));
  EXPECT_FALSE(is_copy("x[0] = 1", "x[1] = 1"));
  EXPECT_FALSE(is_copy("// 2)", "// 4)"));
}

TEST(Novelty, AcceptsShortOrInvalidText) {
  EXPECT_EQ(Similarity(Shingles(""), Shingles("// nothing")), 1);
  EXPECT_EQ(Similarity(Shingles(""), Shingles("int a;")), 0);
  EXPECT_TRUE(IsCopy(Shingles("int a;"), Shingles("int b;")));
  EXPECT_LT(Similarity(Shingles("int a; int a;"), Shingles("int a;")), 1);
  for (const char* text :
       {"\"", "'", "R\"(", "/*", "a\\", "0x", "1e+", ".", "9999999999999999999999", "1e999"}) {
    EXPECT_TRUE(IsCopy(Shingles(text), Shingles(text))) << text;
  }
}

TEST(Novelty, NearestPrefersCopies) {
  std::vector<Shingles> among;
  EXPECT_FALSE(FindNearest(Shingles(kKernel), among));
  among.emplace_back("int a;");
  among.emplace_back(With(kKernel, {{"b[i] *", "a[i] *"}}));
  EXPECT_EQ(FindNearest(Shingles(kKernel), among)->index, 1u);
  EXPECT_FALSE(FindNearest(Shingles(kKernel), among)->is_copy);
  among.emplace_back(AllRenamed(kKernel));
  among.emplace_back(kKernel);
  const auto nearest = FindNearest(Shingles(kKernel), among);
  EXPECT_EQ(nearest->index, 2u);
  EXPECT_TRUE(nearest->is_copy);
  EXPECT_EQ(nearest->similarity, 1);
}

// Shows why only identical tokens make a copy: see IsCopy.
TEST(Novelty, SmallestChangesOfOurKernelsAreNotCopies) {
  const auto kernels = Kernels();
  std::vector<Shingles> shingles;
  for (const auto& kernel : kernels) shingles.emplace_back(kernel.second);
  std::vector<double> pairs, tuned, changed;
  for (size_t i = 0; i < kernels.size(); ++i) {
    const std::string& source = kernels[i].second;
    for (size_t j = 0; j < i; ++j) {
      EXPECT_FALSE(IsCopy(shingles[i], shingles[j])) << kernels[i].first << kernels[j].first;
      pairs.push_back(Similarity(shingles[i], shingles[j]));
    }
    const auto tunables = FindTunables(source);
    ASSERT_TRUE(tunables) << kernels[i].first;
    for (const Tunable& tunable : *tunables) {
      for (const int64_t choice : tunable.choices) {
        if (choice == tunable.value) continue;
        const Shingles variant(*Rewrite(source, *tunables, {{tunable.name, choice}}));
        EXPECT_FALSE(IsCopy(variant, shingles[i])) << kernels[i].first << tunable.name;
        tuned.push_back(Similarity(variant, shingles[i]));
      }
    }
    const std::map<std::string, std::string> smallest = {{"__syncthreads();", ""},
                                                         {" < ", " <= "},
                                                         {" + ", " - "},
                                                         {"__restrict__", ""},
                                                         {"#pragma unroll", ""}};
    const std::string code = build::CodeOnly(source);  // so that changes are not in comments
    for (const auto& change : smallest) {
      const size_t at = code.find(change.first);
      if (at == std::string::npos) continue;
      std::string other = source;
      const Shingles variant(other.replace(at, change.first.size(), change.second));
      EXPECT_FALSE(IsCopy(variant, shingles[i])) << kernels[i].first << change.first;
      changed.push_back(Similarity(variant, shingles[i]));
    }
  }
  Print("different kernels", pairs);
  Print("variants of the tuner", tuned);
  Print("one operator or barrier", changed);
  // Attention of packed sequences is a sibling of attention.
  EXPECT_LT(*std::max_element(pairs.begin(), pairs.end()), 0.9);
  EXPECT_LT(*std::max_element(tuned.begin(), tuned.end()), 1);
  EXPECT_GT(*std::max_element(changed.begin(), changed.end()), 0.99);
}

TEST(Novelty, IsLinearOnLargeFiles) {
  std::string large;
  while (large.size() < (1u << 20)) large += kKernel;
  const auto start = std::chrono::steady_clock::now();
  const Shingles shingles(large);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  EXPECT_GT(shingles.runs().size(), 200000u);
  EXPECT_LT(took.count(), 20);  // 0.1 s on an idle machine
}

}  // namespace
}  // namespace cupel::evolve
