// Do we fuse shared-memory accesses as ptxas does? For each kernel, the program compares the widths
// that FuseSharedAccesses predicts from PTX with the widths of the LDS and STS instructions in
// ptxas's cubin. Usage: shared_widths FILE.ptx FILE.cubin …
//
// It compares shares and not counts, because unrolling repeats instructions.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <array>
#include <cmath>
#include <cstring>
#include <fstream>
#include <iterator>
#include <map>
#include <string>
#include <vector>

#include "emu/decode/shared_fusion.h"
#include "ptx/parser.h"

namespace cupel::bench {
namespace {

constexpr std::array<uint32_t, 5> kWidths = {1, 2, 4, 8, 16};

/// Accesses by width, loads and stores separately.
struct Widths {
  std::array<double, 5> loads{}, stores{};
  void Add(bool store, uint32_t bytes) {
    for (size_t i = 0; i < kWidths.size(); ++i) {
      if (kWidths[i] == bytes) ++(store ? stores : loads)[i];
    }
  }
};

std::string ReadAll(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

template <typename T>
T Get(const std::string& bytes, uint64_t at) {
  T value{};
  if (at <= bytes.size() && sizeof value <= bytes.size() - at) {
    std::memcpy(&value, bytes.data() + at, sizeof value);
  }
  return value;
}

/// Instructions have 16 bytes since Volta: the opcode in bits 0 to 11, the width of a memory access
/// in bits 73 to 75 (u8, s8, u16, s16, 32, 64, 128).
void Decode(const std::string& cubin, uint64_t begin, uint64_t bytes, Widths* widths) {
  static constexpr uint32_t kSizes[8] = {1, 1, 2, 2, 4, 8, 16, 16};
  for (uint64_t at = begin; at + 16 <= begin + bytes; at += 16) {
    const auto opcode = static_cast<uint32_t>(Get<uint64_t>(cubin, at) & 0xfff);
    const uint32_t size = kSizes[(Get<uint64_t>(cubin, at + 8) >> 9) & 7];
    if (opcode == 0x984) widths->Add(false, size);
    if (opcode == 0x388 || opcode == 0x988) widths->Add(true, size);
  }
}

/// By kernel, from the sections ".text.NAME" of an ELF file.
std::map<std::string, Widths> OfCubin(const std::string& cubin) {
  std::map<std::string, Widths> all;
  const auto table = Get<uint64_t>(cubin, 0x28);
  const auto entry = Get<uint16_t>(cubin, 0x3a), count = Get<uint16_t>(cubin, 0x3c);
  const auto names_at =
      Get<uint64_t>(cubin, table + uint64_t{Get<uint16_t>(cubin, 0x3e)} * entry + 24);
  for (uint64_t i = 0; i < count; ++i) {
    const uint64_t header = table + i * entry;
    const uint64_t name_at = names_at + Get<uint32_t>(cubin, header);
    if (name_at >= cubin.size()) continue;
    const std::string name = cubin.c_str() + name_at;
    if (!name.starts_with(".text.")) continue;
    Decode(cubin, Get<uint64_t>(cubin, header + 24), Get<uint64_t>(cubin, header + 32),
           &all[name.substr(6)]);
  }
  return all;
}

Widths OfPtx(const ptx::Function& function) {
  Widths widths;
  const std::vector<emu::SharedFusion> fusions = emu::FuseSharedAccesses(function);
  for (size_t i = 0; i < function.body.size(); ++i) {
    const ptx::Instr& instr = function.body[i];
    const bool shared = instr.Has(ptx::Modifier::kShared) || instr.Has(ptx::Modifier::kSharedCta);
    if (!shared || (instr.op != ptx::Opcode::kLd && instr.op != ptx::Opcode::kSt) ||
        fusions[i].is_member)
      continue;
    const ptx::Types types = instr.Types();
    const int own = types.empty() ? 0 : ptx::SizeOf(types.back());
    const int elements = instr.Has(ptx::Modifier::kV4) ? 4 : instr.Has(ptx::Modifier::kV2) ? 2 : 1;
    const bool fused = fusions[i].bytes != 0;
    widths.Add(instr.op == ptx::Opcode::kSt,
               fused ? fusions[i].bytes : static_cast<uint32_t>(own * elements));
  }
  return widths;
}

/// Largest difference of two distributions' shares; 1 if exactly one of them is empty.
double Distance(const std::array<double, 5>& a, const std::array<double, 5>& b) {
  double sum_a = 0, sum_b = 0, most = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    sum_a += a[i];
    sum_b += b[i];
  }
  if (sum_a == 0 && sum_b == 0) return 0;
  if (sum_a == 0 || sum_b == 0) return 1;
  for (size_t i = 0; i < a.size(); ++i)
    most = std::max(most, std::fabs(a[i] / sum_a - b[i] / sum_b));
  return most;
}

std::string Show(const std::array<double, 5>& counts) {
  std::string text;
  for (size_t i = 0; i < counts.size(); ++i) {
    if (counts[i] > 0) text += fmt::format(" {}x{}", counts[i], kWidths[i]);
  }
  return text.empty() ? " none" : text;
}

struct Agreement {
  int kernels = 0;            // with shared accesses
  int loads = 0, stores = 0;  // of these, the kernels whose loads or stores agree
};

bool Compare(const std::string& ptx_path, const std::string& cubin_path, Agreement* agreement) {
  auto module = ptx::Parse(ReadAll(ptx_path));
  if (!module) {
    fmt::print(stderr, "{}: {}\n", ptx_path, module.error().message);
    return false;
  }
  const std::map<std::string, Widths> actual = OfCubin(ReadAll(cubin_path));
  for (const ptx::Function& function : module->functions) {
    const auto found = actual.find(function.name);
    if (!function.is_entry || found == actual.end()) continue;
    const Widths predicted = OfPtx(function);
    if (Show(predicted.loads) == " none" && Show(predicted.stores) == " none") continue;
    constexpr double kSame = 0.02;  // allows for remainders of unrolled loops
    const bool loads = Distance(predicted.loads, found->second.loads) <= kSame;
    const bool stores = Distance(predicted.stores, found->second.stores) <= kSame;
    ++agreement->kernels;
    agreement->loads += loads;
    agreement->stores += stores;
    fmt::print("{} {}\n", loads && stores ? "same  " : "differ", function.name.substr(0, 90));
    if (loads && stores) continue;
    fmt::print("    loads  predicted{}, ptxas{}\n    stores predicted{}, ptxas{}\n",
               Show(predicted.loads), Show(found->second.loads), Show(predicted.stores),
               Show(found->second.stores));
  }
  return true;
}

}  // namespace
}  // namespace cupel::bench

int main(int argc, char** argv) {
  cupel::bench::Agreement agreement;
  bool ok = argc > 2;
  for (int i = 1; i + 1 < argc; i += 2) {
    ok = cupel::bench::Compare(argv[i], argv[i + 1], &agreement) && ok;
  }
  fmt::print("{} kernels with shared memory: loads agree in {}, stores in {}\n", agreement.kernels,
             agreement.loads, agreement.stores);
  return ok ? 0 : 1;
}
