// Plans as readable text: one line per node, and the names of buffers.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <map>
#include <set>
#include <string_view>

#include "base/demangle.h"
#include "plan/codec.h"
#include "plan/tensor_map_json.h"

namespace cupel::plan {
namespace {

std::string Text(const Dim3& dim) {
  if (dim.z != 1) return fmt::format("{}x{}x{}", dim.x, dim.y, dim.z);
  if (dim.y != 1) return fmt::format("{}x{}", dim.x, dim.y);
  return fmt::format("{}", dim.x);
}

class Describer {
 public:
  explicit Describer(const Plan& plan) : plan_(plan) {
    for (const Node& node : plan.nodes) {
      const auto* launch = std::get_if<Launch>(&node.work);
      if (launch != nullptr) images_[launch->kernel].insert(launch->image);
    }
  }

  std::string Text(const Address& address) const {
    std::string name;
    if (address.buffer == -1) {
      name = "null";
    } else if (address.buffer < 0 || static_cast<size_t>(address.buffer) >= plan_.buffers.size()) {
      name = fmt::format("buffer {} (missing)", address.buffer);
    } else {
      const Buffer& buffer = plan_.buffers[static_cast<size_t>(address.buffer)];
      switch (buffer.kind) {
        case BufferKind::kArgument:
          name = fmt::format("argument {}", buffer.argument);
          break;
        case BufferKind::kTemporary:
          name = fmt::format("temporary {}", address.buffer);
          break;
        case BufferKind::kWorkspace:
          name = fmt::format("workspace {}", address.buffer);
          break;
        case BufferKind::kSymbol:
          name = Demangle(buffer.symbol);
          break;
      }
    }
    return address.offset == 0 ? name : fmt::format("{} + {}", name, address.offset);
  }

  std::string Text(const View& view) const {
    if (view.address.buffer == kNoneOutput) return "None";
    return fmt::format("{} {}[{}]", Text(view.address), Name(view.dtype),
                       fmt::join(view.shape, ", "));
  }

  std::string Text(const std::vector<PlacedTensorMap>& maps) const {
    std::string text;
    for (const PlacedTensorMap& placed : maps) {
      text += fmt::format(" [{}]=map({}: {})", placed.at, Text(placed.address),
                          plan::Describe(placed.map));
    }
    return text;
  }

  std::string operator()(const Launch& launch) const {
    std::string line =
        fmt::format("launch {} grid {} block {} shared {}", Demangle(launch.kernel),
                    plan::Text(launch.grid), plan::Text(launch.block), launch.dynamic_shared);
    if (launch.image != 0 && images_.at(launch.kernel).size() > 1) {
      line += fmt::format(" image {}", launch.image);
    }
    if (launch.cluster != Dim3{}) line += " cluster " + plan::Text(launch.cluster);
    if (launch.cooperative) line += " cooperative";
    if (launch.early) line += " early";
    for (const Relocation& r : launch.relocations) {
      line += fmt::format(" [{}]={}", r.at, Text(r.target));
    }
    return line + Text(launch.tensor_maps);
  }
  std::string operator()(const Copy& copy) const {
    return fmt::format("copy {} bytes {} <- {}", copy.bytes, Text(copy.to), Text(copy.from));
  }
  std::string operator()(const Upload& upload) const {
    return fmt::format("upload {} bytes -> {}", upload.bytes.size(), Text(upload.to)) +
           Text(upload.tensor_maps);
  }
  std::string operator()(const Fill& fill) const {
    return fmt::format("fill {} x {} bytes -> {}", fill.count, fill.pattern.size(), Text(fill.to));
  }
  std::string operator()(const CopyView& copy) const {
    return fmt::format("copy {} <- {}", Text(copy.to), Text(copy.from));
  }
  std::string operator()(const Gemm& gemm) const {
    return fmt::format("gemm {}x{}x{} {}{} batch {} {} <- {} * {}", gemm.m, gemm.n, gemm.k,
                       gemm.transpose_a ? 't' : 'n', gemm.transpose_b ? 't' : 'n', gemm.batch,
                       Text(gemm.c), Text(gemm.a), Text(gemm.b));
  }
  std::string operator()(const Operator& work) const {
    std::string line = work.name;
    ForEachView(work, [&](const View& view, bool is_written) {
      line += (is_written ? " writes " : " reads ") + Text(view);
    });
    return line;
  }

 private:
  const Plan& plan_;
  std::map<std::string_view, std::set<int>> images_;  // that have a kernel of this name
};

}  // namespace

std::string Describe(const Plan& plan) {
  const Describer describer(plan);
  std::string text;
  for (const Node& node : plan.nodes) text += std::visit(describer, node.work) + "\n";
  for (const View& view : plan.outputs) text += "return " + describer.Text(view) + "\n";
  return text;
}

std::string NameOf(const Buffer& buffer, size_t index) {
  switch (buffer.kind) {
    case BufferKind::kArgument:
      return fmt::format("argument {}", buffer.argument);
    case BufferKind::kTemporary:
      return fmt::format("temporary {}", index);
    case BufferKind::kWorkspace:
      return fmt::format("workspace {}", index);
    case BufferKind::kSymbol:
      return "symbol " + Demangle(buffer.symbol);
  }
  return fmt::format("buffer {}", index);
}

}  // namespace cupel::plan
