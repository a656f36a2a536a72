// SPDX-License-Identifier: Apache-2.0
#include "blocks.h"

#include <fmt/format.h>

#include <cstdlib>
#include <cstring>
#include <utility>

#include "machine.h"

namespace cupel::reference {

std::vector<BlockKernel> AllBlockKernels() {
  std::vector<BlockKernel> all;
  for (const auto family : {ProductKernels, TensorMemoryKernels, TensorKernels, CopyKernels,
                            BarrierKernels, ClusterKernels}) {
    for (BlockKernel& kernel : family()) all.push_back(std::move(kernel));
  }
  return all;
}

std::vector<std::byte> BlockParameters(std::span<const uint64_t> addresses,
                                       std::span<const MapParameter> maps) {
  std::vector<std::byte> bytes(8 * addresses.size());
  std::memcpy(bytes.data(), addresses.data(), bytes.size());
  for (const MapParameter& parameter : maps) {
    bytes.resize((bytes.size() + 63) / 64 * 64);
    const auto map = plan::EncodeTensorMap(parameter.map, addresses[parameter.buffer]);
    bytes.insert(bytes.end(), map.begin(), map.end());
  }
  return bytes;
}

std::string RunReference(const ptx::Module& module, const std::string& kernel, uint32_t grid,
                         uint32_t block, std::vector<std::vector<std::byte>>* buffers,
                         std::span<const MapParameter> maps) {
  Machine machine(module);
  Launch launch;
  launch.kernel = kernel;
  launch.grid[0] = grid;
  launch.block[0] = block;
  std::vector<uint64_t> addresses;
  for (const auto& buffer : *buffers) addresses.push_back(machine.Allocate(buffer));
  launch.parameters = BlockParameters(addresses, maps);
  std::string error = machine.Run(launch);
  for (size_t i = 0; i < addresses.size(); ++i) (*buffers)[i] = machine.Contents(addresses[i]);
  return error;
}

std::string CompareBuffers(const std::vector<std::vector<std::byte>>& expected,
                           const std::vector<std::vector<std::byte>>& got) {
  for (size_t i = 0; i < expected.size(); ++i) {
    for (size_t at = 0; at + 4 <= expected[i].size(); at += 4) {
      uint32_t a = 0, b = 0;
      std::memcpy(&a, expected[i].data() + at, 4);
      std::memcpy(&b, got[i].data() + at, 4);
      if (a == b) continue;
      return fmt::format("byte {} of buffer {} begins {:#x}, should be {:#x}", at, i, b, a);
    }
  }
  return {};
}

std::string BlockHead(size_t buffers, size_t maps, const std::string& attributes,
                      const std::string& target) {
  std::string text = fmt::format(".version {}\n.target {}\n.address_size 64\n.visible .entry k(",
                                 target == "sm_90a" ? "8.5" : "9.0", target);
  for (size_t i = 0; i < buffers; ++i) text += fmt::format("{}.param .u64 b{}", i ? ", " : "", i);
  for (size_t i = 0; i < maps; ++i) text += fmt::format(", .param .align 64 .b8 m{}[128]", i);
  text += fmt::format(
      ")\n{}\n{{\n.reg .pred %p, %q; .reg .b32 %t, %x<12>, %w<4>, %tries;\n"
      ".reg .b64 %b<4>, %m<4>, %y<4>;\nmov.u32 %t, %tid.x;\n",
      attributes);
  for (size_t i = 0; i < buffers; ++i) text += fmt::format("ld.param.u64 %b{0}, [b{0}];\n", i);
  for (size_t i = 0; i < maps; ++i) {
    text += fmt::format("mov.b64 %m{0}, m{0};\ncvta.param.u64 %m{0}, %m{0};\n", i);
  }
  return text;
}

namespace {

std::string CopyLoop(const std::string& buffer, const std::string& shared, size_t bytes,
                     uint32_t threads, bool in) {
  const std::string label = fmt::format("COPY_{}_{}", in ? "IN" : "OUT", shared);
  const std::string vector = "{%w0, %w1, %w2, %w3}";
  std::string text = fmt::format(
      "shl.b32 %x0, %t, 4;\n{}: setp.ge.u32 %p, %x0, {};\n@%p bra {}_END;\n"
      "cvt.u64.u32 %y0, %x0;\nadd.s64 %y0, %y0, {};\nmov.u32 %x1, {};\nadd.u32 %x1, %x1, %x0;\n",
      label, bytes, label, buffer, shared);
  text += in ? fmt::format("ld.global.v4.b32 {0}, [%y0];\nst.shared.v4.b32 [%x1], {0};\n", vector)
             : fmt::format("ld.shared.v4.b32 {0}, [%x1];\nst.global.v4.b32 [%y0], {0};\n", vector);
  return text +
         fmt::format("add.u32 %x0, %x0, {};\nbra {};\n{}_END:\n", 16 * threads, label, label);
}

}  // namespace

std::string CopyIn(const std::string& buffer, const std::string& shared, size_t bytes,
                   uint32_t threads) {
  return CopyLoop(buffer, shared, bytes, threads, true);
}

std::string CopyOut(const std::string& buffer, const std::string& shared, size_t bytes,
                    uint32_t threads) {
  return CopyLoop(buffer, shared, bytes, threads, false);
}

std::string WaitFor(const std::string& barrier, const std::string& parity, const std::string& label,
                    const std::string& order) {
  return fmt::format(
      "mov.u32 %tries, 0;\n"
      "{0}: mbarrier.try_wait.parity{3}.shared::cta.b64 %p, [{1}], {2};\n@%p bra {0}_END;\n"
      "add.u32 %tries, %tries, 1;\nsetp.lt.u32 %p, %tries, 20000;\n@%p bra {0};\ntrap;\n"
      "{0}_END:\n",
      label, barrier, parity, order);
}

std::vector<std::byte> RandomBytes(size_t bytes, Random& random) {
  std::vector<std::byte> result(bytes);
  for (std::byte& byte : result) byte = static_cast<std::byte>(random());
  return result;
}

uint64_t SmallFloat(int value, int exponent, const Format& format) {
  Number number = Number::Integer(value < 0, static_cast<uint64_t>(std::abs(value)));
  number.exponent += exponent;
  if (value == 0) number.exponent = 0;
  return Pack(number, format, Rounding::kNearestEven);
}

}  // namespace cupel::reference
