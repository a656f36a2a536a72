// The list of instructions in docs/emulator.md comes from the tables of opcodes and handlers. This
// test fails if it is out of date; with CUPEL_UPDATE_DOCS=1 it writes the list.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <string>

#include "emu/isa/instructions.h"
#include "emu/ops/handlers.h"

namespace cupel::emu {
namespace {

using ptx::Opcode;

constexpr std::string_view kListBegin =
    "<!-- instructions: generated, see src/emu/ops/support_test.cc -->\n";
constexpr std::string_view kListEnd = "<!-- end of instructions -->\n";

/// What the decoder accepts of instructions that are not simply a row of the handler table.
std::string_view NoteOn(Decode decode) {
  switch (decode) {
    case Decode::kAccess:
      return "8 to 128 bits; vectors of 2, 4 and 8; all spaces, caches, orders and scopes; "
             "st.async";
    case Decode::kAtomic:
      return "vectors of 2, 4 and 8; atom.exch and atom.cas of b128; all orders and scopes; "
             "red.async";
    case Decode::kMov:
      return "also packs and unpacks vectors, and b128";
    case Decode::kCvta:
      return "all spaces";
    case Decode::kCarry:
      return "with and without .cc";
    case Decode::kChoose:
      return "two operands; three of f32";
    case Decode::kBarrier:
      return "blocks, warps, clusters";
    case Decode::kFence:
      return "orders accesses for the race checks, also those of the asynchronous and the "
             "tensormap "
             "proxy";
    case Decode::kGridWait:
      return "orders accesses after the launch before it, which has always ended";
    case Decode::kRegisters:
      return "never waits; what the warps of a block keep at its end must fit into its registers";
    case Decode::kHint:
    case Decode::kPolicy:
      return "no effect";
    case Decode::kProduct:
      return "f16, bf16, tf32, f64, e4m3, e5m2, 8-bit, 4-bit and 1-bit integers; dense and sparse";
    case Decode::kFragment:
      return "as mma, dense";
    case Decode::kWarpgroup:
      return "sm_90a: dense and sparse, all shapes, types, layouts and swizzles";
    case Decode::kTensorMemory:
      return ".cta_group::1: alloc, ld, st, cp, mma (dense, all kinds), commit (also to other "
             "blocks), "
             "fences and waits; without shift, .sp, .ws and .ashift";
    case Decode::kMatrixRows:
      return ".m8n8.b16";
    case Decode::kAsync:
      return "cp.async; bulk and tensor copies: tile and im2col, reductions, multicast, all "
             "swizzles but those of larger atoms, interleaved tiles";
    case Decode::kTensorMap:
      return "replace, cp_fenceproxy";
    case Decode::kMemoryBarrier:
      return "also in the shared memory of other blocks of the cluster";
    case Decode::kIndexedBranch:
      return ".idx";
    default:
      return "";
  }
}

/// The types of the handlers of each opcode, in the order of ptx::Type.
std::map<Opcode, std::set<ptx::Type>> TypesOfHandlers() {
  std::map<Opcode, std::set<ptx::Type>> types;
  for (const std::string& name : Handlers().Names()) {
    const Form form = FormNamed(name);
    for (const ptx::Type type : ptx::TypesOf(form.modifiers)) types[form.opcode].insert(type);
  }
  types[Opcode::kRed] = types[Opcode::kAtom];
  for (const Opcode access : {Opcode::kLd, Opcode::kSt}) types.erase(access);
  return types;
}

std::string Listing() {
  auto types = TypesOfHandlers();
  std::string table = "| instruction | types | remarks |\n|---|---|---|\n", missing;
  for (int i = 1; i < static_cast<int>(Opcode::kCallOutOfLine); ++i) {
    const auto opcode = static_cast<Opcode>(i);
    const Decode decode = RowOf(opcode).decode;
    if (decode == Decode::kUnsupported && opcode != Opcode::kCall) {
      missing += fmt::format("{}`{}`", missing.empty() ? "" : ", ", ptx::Name(opcode));
      continue;
    }
    std::string names;
    for (const ptx::Type type : types[opcode]) {
      names += fmt::format("{}{}", names.empty() ? "" : " ", ptx::Name(type));
    }
    const std::string_view note =
        opcode == Opcode::kCall ? "inlined; recursion and pointers out of line; malloc and free"
                                : NoteOn(decode);
    table += fmt::format("| `{}` | {} | {} |\n", ptx::Name(opcode), names, note);
  }
  return table + "\nKnown and unsupported: " + missing + ".\n";
}

TEST(SupportTest, TheListOfInstructionsInTheDocumentationIsUpToDate) {
  const std::string path = std::string(CUPEL_SOURCE_DIR) + "/docs/emulator.md";
  std::ostringstream read;
  read << std::ifstream(path).rdbuf();
  const std::string text = read.str();
  const size_t begin = text.find(kListBegin), end = text.find(kListEnd);
  ASSERT_NE(begin, std::string::npos);
  ASSERT_NE(end, std::string::npos);
  const size_t from = begin + kListBegin.size();
  const std::string want = Listing();
  if (std::getenv("CUPEL_UPDATE_DOCS") != nullptr) {
    std::ofstream(path) << text.substr(0, from) << want << text.substr(end);
    return;
  }
  EXPECT_EQ(text.substr(from, end - from), want)
      << "Run emu_test with CUPEL_UPDATE_DOCS=1 to write the list again.";
}

}  // namespace
}  // namespace cupel::emu
