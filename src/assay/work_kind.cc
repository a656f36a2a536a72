// SPDX-License-Identifier: Apache-2.0
#include "assay/work_kind.h"

#include <fmt/format.h>

#include <cstdint>
#include <cstring>

namespace cupel::assay {
namespace {

constexpr uint32_t kPlainShared = 48 << 10;  // more dynamic shared memory must be requested
constexpr size_t kMostWords = 256;           // of parameters; later ones are likely tables

std::vector<uint32_t> WordsOf(const plan::Launch& launch) {
  std::vector<uint32_t> words(std::min(launch.parameters.size() / 4, kMostWords));
  std::memcpy(words.data(), launch.parameters.data(), 4 * words.size());
  for (const plan::Relocation& relocation : launch.relocations) {
    for (const uint32_t at : {relocation.at / 4, relocation.at / 4 + 1}) {
      if (at < words.size()) words[at] = 2;  // an address
    }
  }
  return words;
}

struct AddKind {
  const std::map<std::pair<int, std::string>, std::vector<bool>>& flags;
  std::string& kind;

  void operator()(const plan::Launch& launch) const {
    const plan::Dim3 &grid = launch.grid, &block = launch.block, &cluster = launch.cluster;
    kind += fmt::format("launch {} {} block {},{},{} cluster {},{},{} axes {}{} {}{}{}{} ",
                        launch.image, launch.kernel, block.x, block.y, block.z, cluster.x,
                        cluster.y, cluster.z, grid.y > 1 ? "y" : "", grid.z > 1 ? "z" : "",
                        launch.dynamic_shared > kPlainShared ? "large " : "",
                        launch.cooperative ? "cooperative " : "", launch.early ? "early " : "",
                        launch.lone_clusters ? "lone " : "");
    const auto known = flags.find({launch.image, launch.kernel});
    const std::vector<uint32_t> words = WordsOf(launch);
    for (size_t i = 0; known != flags.end() && i < words.size(); ++i) {
      if (i < known->second.size() && known->second[i]) kind += words[i] == 0 ? '0' : '1';
    }
    kind += ';';
  }
  void operator()(const plan::Gemm& gemm) const {
    kind += fmt::format("gemm {}{} {} {} {} {} {};", gemm.transpose_a, gemm.transpose_b,
                        Name(gemm.a_type), Name(gemm.b_type), Name(gemm.c_type), gemm.compute,
                        gemm.batch > 1 || !gemm.pointers.empty());
  }
  void operator()(const plan::Operator& work) const { kind += work.name + ";"; }
  void operator()(const plan::Copy&) const { kind += "copy;"; }
  void operator()(const plan::Upload&) const { kind += "upload;"; }
  void operator()(const plan::Fill&) const { kind += "fill;"; }
  void operator()(const plan::CopyView&) const { kind += "copy view;"; }
};

}  // namespace

void WorkKinds::Add(const plan::Plan& plan) {
  for (const plan::Node& node : plan.nodes) {
    const auto* launch = std::get_if<plan::Launch>(&node.work);
    if (launch == nullptr) continue;
    const std::vector<uint32_t> words = WordsOf(*launch);
    std::vector<bool>& flags =
        flags_.try_emplace({launch->image, launch->kernel}, words.size(), true).first->second;
    for (size_t i = 0; i < std::min(words.size(), flags.size()); ++i) {
      if (words[i] > 1) flags[i] = false;
    }
  }
}

std::string WorkKinds::Of(const plan::Plan& plan) const {
  std::string kind;
  for (const plan::Node& node : plan.nodes) std::visit(AddKind{flags_, kind}, node.work);
  return kind;
}

}  // namespace cupel::assay
