// SPDX-License-Identifier: Apache-2.0
#include "ptx/parser.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace cupel::ptx {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string WithHeader(const std::string& text) {
  return ".version 9.0\n.target sm_90a\n.address_size 64\n" + text;
}

std::string Kernel(const std::string& body) {
  return WithHeader(".visible .entry k(.param .u64 p)\n{\n" + body + "\nret;\n}\n");
}

Module MustParse(const std::string& text) {
  auto module = Parse(text);
  EXPECT_TRUE(module.has_value()) << module.error().ToString();
  return module ? *std::move(module) : Module{};
}

std::string ErrorOf(const std::string& text) {
  const auto module = Parse(text);
  return module ? "no error" : module.error().ToString();
}

/// The body of the only kernel.
Function Body(const std::string& body) {
  Module module = MustParse(Kernel(body));
  return module.functions.empty() ? Function{} : module.functions.back();
}

TEST(ParserTest, InstructionHasMnemonicModifiersAndTypes) {
  const Function f = Body(
      ".reg .f32 %f<9>; .reg .b64 %rd<3>; .reg .pred %p<2>;\n"
      "@!%p1 ld.global.nc.L2::128B.v4.f32 {%f1,%f2,_,%f4}, [%rd1+-16];\n"
      "cvt.rn.ftz.f32.f64 %f1, 0d3FF0000000000000;");
  const Instr& load = f.body[0];
  EXPECT_EQ(load.op, Opcode::kLd);
  EXPECT_EQ(load.modifiers, (Modifiers{Modifier::kGlobal, Modifier::kNc, Modifier::kL2128B,
                                       Modifier::kV4, Modifier::kF32}));
  EXPECT_EQ(load.Mnemonic(), "ld.global.nc.L2::128B.v4.f32");
  EXPECT_TRUE(load.Has(Modifier::kNc));
  EXPECT_EQ(f.registers[load.guard].name, "%p1");
  EXPECT_TRUE(load.guard_negated);
  EXPECT_EQ(load.operands[0].elements[2].kind, OperandKind::kSink);
  EXPECT_EQ(load.operands[1].kind, OperandKind::kAddress);
  EXPECT_EQ(load.operands[1].offset, -16);
  EXPECT_EQ(f.registers[load.operands[1].reg].name, "%rd1");
  EXPECT_EQ(load.text_line, 7);
  EXPECT_EQ(f.body[1].Types(), (Types{Type::kF32, Type::kF64}));
}

TEST(ParserTest, KeepsShapesAsNumbersAndUnknownWordsAsText) {
  const Function f = Body(
      ".reg .b32 %r<9>; .reg .f32 %f<9>;\n"
      "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%f1}, {%r1}, {%r2}, {%f2};\n"
      "add.global.of2031.u32 %r1, %r2, %r3;\n"
      "frobnicate.u32.m016n8k16.m8n8k16.m8n8k4 %r1;");
  EXPECT_EQ(f.body[0].shape, (Shape{16, 8, 16}));
  EXPECT_EQ(f.body[0].Mnemonic(), "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32");
  EXPECT_EQ(f.body[0].unknown, "");
  EXPECT_EQ(f.body[1].op, Opcode::kAdd);
  EXPECT_EQ(f.body[1].unknown, "add.global.of2031.u32");
  EXPECT_EQ(f.body[2].op, Opcode::kUnknown);
  EXPECT_EQ(f.body[2].shape, (Shape{8, 8, 16}));
  EXPECT_EQ(f.body[2].unknown, "frobnicate.u32.m016n8k16.m8n8k16.m8n8k4");
}

TEST(OpcodeTest, EveryTextLeadsBackToItsRow) {
  for (int i = 1; OpcodeNamed(Name(static_cast<Opcode>(i))) != Opcode::kAssertFail; ++i) {
    const auto opcode = static_cast<Opcode>(i);
    EXPECT_EQ(OpcodeNamed(Name(opcode)), opcode) << Name(opcode);
  }
  for (int i = static_cast<int>(Modifier::kPred); i <= static_cast<int>(Modifier::kExclusive);
       ++i) {
    const auto modifier = static_cast<Modifier>(i);
    EXPECT_EQ(ModifierNamed(Name(modifier)), modifier) << Name(modifier);
    const Type type = TypeOf(modifier);
    if (type != Type::kNone) {
      EXPECT_EQ(Name(type), Name(modifier));
    }
  }
}

struct Number {
  const char* text;
  uint64_t bits;
  Type type;
};

TEST(ParserTest, Numbers) {
  const Number numbers[] = {
      {"42", 42, Type::kS64},
      {"-1", ~0ull, Type::kS64},
      {"-9223372036854775808", 1ull << 63, Type::kS64},
      {"0x1F", 31, Type::kS64},
      {"0X1FU", 31, Type::kU64},
      {"017", 15, Type::kS64},
      {"0b101", 5, Type::kS64},
      {"0xFFFFFFFFFFFFFFFF", ~0ull, Type::kU64},
      {"0f3F800000", 0x3F800000, Type::kF32},
      {"-0f3F800000", 0xBF800000, Type::kF32},
      {"0dBFF0000000000000", 0xBFF0000000000000, Type::kF64},
      {"1.5", 0x3FF8000000000000, Type::kF64},
      {"-1e0", 0xBFF0000000000000, Type::kF64},
      {"WARP_SZ", 32, Type::kS64},
  };
  for (const Number& number : numbers) {
    const Function f = Body(fmt::format(".reg .b64 r; mov.b64 r, {};", number.text));
    ASSERT_EQ(f.body.size(), 2u) << number.text;
    EXPECT_EQ(f.body[0].operands[1].bits, number.bits) << number.text;
    EXPECT_EQ(f.body[0].operands[1].imm_type, number.type) << number.text;
  }
  for (const char* bad : {"18446744073709551616", "0x", "0f3F8000", "12ab", "0b2", "08", "-%r"}) {
    EXPECT_THAT(ErrorOf(Kernel(fmt::format(".reg .b64 r; mov.b64 r, {};", bad))),
                HasSubstr("PTX line 6"))
        << bad;
  }
}

TEST(ParserTest, OperandForms) {
  const Function f = Body(
      ".shared .align 8 .b8 s[64]; .reg .b32 %r<9>; .reg .b64 %rd<3>; .reg .pred p, q;\n"
      "setp.eq.and.s32 p|q, %r1, 0, !p;\n"
      "mov.u32 %r1, %ctaid.x;\nmov.u64 %rd1, s+8;\n"
      "elect.sync _|p, -1;\n"
      "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
      "[s], [%rd1, {%r1, 4}], [%r2+4];");
  EXPECT_EQ(f.body[0].operands[0].kind, OperandKind::kPair);
  EXPECT_TRUE(f.body[0].operands[3].negated);
  EXPECT_EQ(f.body[1].operands[1].kind, OperandKind::kSpecial);
  EXPECT_EQ(f.body[1].operands[1].symbol, "ctaid.x");
  EXPECT_EQ(f.body[2].operands[1].kind, OperandKind::kSymbol);
  EXPECT_EQ(f.body[2].operands[1].offset, 8);
  EXPECT_EQ(f.body[3].operands[0].elements[0].kind, OperandKind::kSink);
  const Operand& tensor = f.body[4].operands[1];
  ASSERT_EQ(tensor.elements.size(), 1u);
  EXPECT_EQ(tensor.elements[0].elements[1].bits, 4u);
  EXPECT_EQ(f.body[4].operands[0].symbol, "s");
}

TEST(ParserTest, VectorRegistersAreRegistersOfTheirElements) {
  const Function f = Body(
      ".reg .v2 .f32 v, w;\n"
      "{ .reg .v4 .f32 v; mov.f32 v.w, w.y; mov.f32 v.b, w.r; }\n"
      "ld.global.v2.f32 v, [p];");
  ASSERT_EQ(f.registers.size(), 8u);
  EXPECT_EQ(f.registers[7].name, f.registers[f.body[0].operands[0].reg].name);
  EXPECT_EQ(f.body[0].operands[1].reg, 3);
  EXPECT_EQ(f.body[1].operands[0].reg, 6);
  EXPECT_EQ(f.body[1].operands[1].reg, 2);
  const Operand& vector = f.body[2].operands[0];
  EXPECT_EQ(vector.kind, OperandKind::kVector);
  ASSERT_EQ(vector.elements.size(), 2u);
  EXPECT_EQ(vector.elements[1].reg, 1);
  EXPECT_THAT(ErrorOf(Kernel(".reg .v2 .b32 v; mov.b32 v.z, 1;")), HasSubstr("an element"));
  EXPECT_THAT(ErrorOf(Kernel(".reg .v2 .b32 v; st.v2.b32 [p], {v, v};")), HasSubstr("a vector"));
}

TEST(ParserTest, NestedScopesAreFlattenedWithUniqueNames) {
  const Function f = Body(
      ".reg .b32 %r<3>;\n"
      "{ .reg .b32 t; mov.b32 t, 1; bra L; L: }\n"
      "{ .reg .b32 t; mov.b32 t, %r1; { .reg .f32 t<2>, %r<2>; mov.f32 t1, %r1; }\n"
      "bra L; L: mov.b32 t, 2; }");
  const auto name = [&](int instr, int operand) {
    return f.registers[f.body[instr].operands[operand].reg].name;
  };
  EXPECT_EQ(name(0, 0), "t");
  EXPECT_EQ(name(2, 0), "t$1");
  EXPECT_EQ(name(2, 1), "%r1");
  EXPECT_EQ(f.registers[f.body[3].operands[0].reg].type, Type::kF32);
  EXPECT_NE(name(3, 1), "%r1") << "the inner %r1 hides the outer";
  EXPECT_EQ(name(5, 0), "t$1");
  EXPECT_EQ(f.body[1].operands[0].target, 2) << "each L points to the end of its own scope";
  EXPECT_EQ(f.body[4].operands[0].target, 5);
  EXPECT_NE(f.body[1].operands[0].symbol, f.body[4].operands[0].symbol);
}

TEST(ParserTest, LocalNameDoesNotHideModuleVariableAfterFlattening) {
  const Module m =
      MustParse(WithHeader(".global .b32 x;\n.entry k() { .reg .b64 a;\n"
                           "{ .shared .b32 x; mov.u64 a, x; }\nmov.u64 a, x; }"));
  EXPECT_EQ(m.functions[0].body[0].operands[1].symbol, "x$1");
  EXPECT_EQ(m.functions[0].body[1].operands[1].symbol, "x");
}

TEST(ParserTest, BranchTables) {
  const Function f = Body(
      ".reg .b32 r;\nts: .branchtargets A, B, A;\nbrx.idx r, ts;\n"
      "A: mov.b32 r, 1;\nB: mov.b32 r, 2;");
  EXPECT_EQ(f.body[0].operands[1].symbol, "ts");
  EXPECT_EQ(f.body[0].operands[1].target, 0);
  EXPECT_THAT(f.branch_table_targets[0], ElementsAre(1, 2, 1));
}

TEST(ParserTest, CallsHaveAUniformShape) {
  const Module m = MustParse(
      WithHeader(".extern .func (.param .b32 r) f (.param .b64 a);\n.func g { ret; }\n"
                 ".entry k() { .reg .b64 %rd<2>; .param .b64 a; .param .b32 r;\n"
                 "call.uni (r), f, (a);\ncall g;\n"
                 "proto : .callprototype (.param .b32 _) _ (.param .align 8 .b8 _[24]) .noreturn;\n"
                 "call (r), %rd1, (a), proto;\ncall %rd1, (), proto; }"));
  const Function& k = *m.Find("k");
  for (const Instr& call : k.body) {
    ASSERT_GE(call.operands.size(), 3u);
    EXPECT_EQ(call.operands[0].kind, OperandKind::kVector);
    EXPECT_EQ(call.operands[2].kind, OperandKind::kVector);
  }
  EXPECT_EQ(k.body[0].operands[0].elements[0].symbol, "r");
  EXPECT_EQ(k.body[0].operands[2].elements[0].symbol, "a");
  EXPECT_EQ(k.body[1].operands[1].symbol, "g");
  EXPECT_EQ(k.body[2].operands[3].target, 0);
  EXPECT_EQ(k.prototypes[0].params[0].bytes, 24u);
  EXPECT_TRUE(k.prototypes[0].noreturn);
}

TEST(ParserTest, KernelParametersAreLaidOutByNaturalAlignment) {
  const Module m = MustParse(WithHeader(
      ".entry k(.param .u8 a, .param .u64 .ptr .global .align 16 b, .param .u16 c,\n"
      ".param .align 16 .b8 d[20], .param .f32 e)\n"
      ".maxntid 128, 1, 1 .minnctapersm 2 .reqnctapercluster 2,1,1 .maxnreg 64\n{ ret; }"));
  const Function& k = m.functions[0];
  std::vector<uint32_t> offsets;
  for (const Param& param : k.params) offsets.push_back(param.offset);
  EXPECT_THAT(offsets, ElementsAre(0, 8, 16, 32, 52));
  EXPECT_EQ(k.param_bytes, 56u);
  EXPECT_TRUE(k.params[1].is_pointer);
  EXPECT_EQ(k.params[1].pointer_space, Space::kGlobal);
  EXPECT_THAT(k.max_ntid, ElementsAre(128, 1, 1));
  EXPECT_THAT(k.cluster_dims, ElementsAre(2, 1, 1));
  EXPECT_EQ(k.max_nreg, 64);
}

TEST(ParserTest, Variables) {
  const Module m = MustParse(
      WithHeader(".visible .global .align 4 .u32 a[4] = {1, -2, 0x3};\n"
                 ".const .f32 f[2] = {0f3F800000, -2.0};\n"
                 ".extern .shared .align 16 .b8 dyn[];\n"
                 ".global .u64 p[2] = {generic(a)+4, a};\n"
                 ".global .align 1 .u8 q[10] = {7, 0xFF(generic(a)+12), 0xFF00(generic(a)+12),"
                 "0xFF0000(generic(a)+12), 0xFF000000(generic(a)+12), 0xFF00000000(generic(a)+12),"
                 "0xFF0000000000(generic(a)+12), 0xFF000000000000(generic(a)+12),"
                 "0XFF00000000000000(generic(a)+12), 9};\n"
                 ".global .attribute(.managed) .v4 .f32 v;"));
  const auto bytes = [](std::initializer_list<int> values) {
    std::string out;
    for (const int value : values) out += static_cast<char>(value);
    return out;
  };
  EXPECT_EQ(m.variables[0].initializer, bytes({1, 0, 0, 0, 254, 255, 255, 255, 3, 0, 0, 0}));
  EXPECT_EQ(m.variables[0].bytes, 16u);
  EXPECT_EQ(m.variables[0].linkage, Linkage::kVisible);
  EXPECT_EQ(m.variables[1].initializer, bytes({0, 0, 128, 63, 0, 0, 0, 192}));
  EXPECT_TRUE(m.variables[2].is_extern);
  EXPECT_EQ(m.variables[2].bytes, 0u);
  EXPECT_EQ(m.variables[3].symbol_inits[0].offset, 4);
  EXPECT_TRUE(m.variables[3].symbol_inits[0].generic);
  EXPECT_EQ(m.variables[3].symbol_inits[1].at, 8u);
  EXPECT_FALSE(m.variables[3].symbol_inits[1].generic);
  ASSERT_EQ(m.variables[4].symbol_inits.size(), 1u) << "eight masked bytes are one address";
  EXPECT_EQ(m.variables[4].symbol_inits[0].at, 1u);
  EXPECT_EQ(m.variables[4].symbol_inits[0].offset, 12);
  EXPECT_TRUE(m.variables[5].managed);
  EXPECT_EQ(m.variables[5].bytes, 16u);
  EXPECT_EQ(m.variables[5].align, 16);
}

TEST(ParserTest, ResolvesLocationsOfInlinedCalls) {
  const Module m =
      MustParse(Kernel(".reg .b32 r;\n.loc 7 10 3\nmov.b32 r, 0;\n"
                       ".loc 7 20 5, function_name $s0, inlined_at 7 10 3\n"
                       ".loc 9 30 7, function_name $s0+3, inlined_at 7 20 5\nmov.b32 r, 1;") +
                ".file 7 \"a.cu\"\n.file 9 \"b.h\"\n"
                ".section .debug_str\n{\n$s0:\n.b8 102,111,0\n.b8 98,0\n}\n.section .debug_abbrev "
                "{ .b8 1 }\n");
  EXPECT_THAT(m.files, ElementsAre("a.cu", "b.h"));
  const Location& first = m.functions[0].body[0].location;
  EXPECT_EQ(first.file, 0);
  EXPECT_EQ(first.line, 10);
  EXPECT_EQ(first.inlined_at, -1);
  const Location& inner = m.functions[0].body[1].location;
  EXPECT_EQ(inner.file, 1);
  EXPECT_EQ(inner.line, 30);
  const InlinedSite& middle = m.inlined_sites.at(inner.inlined_at);
  EXPECT_EQ(middle.function, "b");
  EXPECT_EQ(middle.call.line, 20);
  const InlinedSite& outer = m.inlined_sites.at(middle.call.inlined_at);
  EXPECT_EQ(outer.function, "fo");
  EXPECT_EQ(outer.call.line, 10);
  EXPECT_EQ(outer.call.inlined_at, -1);
}

TEST(ParserTest, DefinitionIsFoundBeforeDeclaration) {
  const Module m = MustParse(WithHeader(".func f;\n.func f { ret; }\n"));
  ASSERT_NE(m.Find("f"), nullptr);
  EXPECT_FALSE(m.Find("f")->is_declaration);
  EXPECT_EQ(m.Find("g"), nullptr);
}

TEST(ParserTest, AliasNamesAnotherFunction) {
  const Module m = MustParse(
      WithHeader(".func f { ret; }\n.func g;\n.entry k() { call g; ret; }\n.alias g, f;\n"));
  EXPECT_EQ(m.aliases, (std::vector<Alias>{{"g", "f"}}));
  EXPECT_EQ(m.Find("g"), m.Find("f"));
  EXPECT_THAT(ErrorOf(WithHeader(".func f;\n.alias g, f;")), HasSubstr("'g' is not a declared"));
}

TEST(ParserTest, TextEndsAtItsFirstZeroByte) {
  const std::string text = WithHeader(".func f { ret; }\n");
  EXPECT_EQ(MustParse(text + '\0' + "junk"), MustParse(text));
}

TEST(ParserTest, ErrorsNameLineAndToken) {
  EXPECT_EQ(ErrorOf(Kernel(".reg .b32 r;\nmov.b32 r, %nope;")),
            "PTX line 7: '%nope' is not declared");
  EXPECT_THAT(ErrorOf(Kernel("\n\nbra MISSING;")), HasSubstr("line 8: label 'MISSING'"));
  EXPECT_THAT(ErrorOf(Kernel("{ L: }\nbra L;")), HasSubstr("label 'L' is not defined"));
  EXPECT_THAT(ErrorOf(Kernel("L: L: ret;")), HasSubstr("defined twice"));
  EXPECT_THAT(ErrorOf(Kernel(".reg .b32 a; .reg .b32 a;")), HasSubstr("declared twice"));
  EXPECT_THAT(ErrorOf(Kernel(".reg .b32 r; @r bra L; L:")), HasSubstr("a predicate"));
  EXPECT_THAT(ErrorOf(Kernel("ret 1 2;")), HasSubstr("'2' where ; was expected"));
  EXPECT_THAT(ErrorOf(WithHeader(".entry k() { ret;")), HasSubstr("the text ends"));
  EXPECT_THAT(ErrorOf("/* open"), HasSubstr("PTX line 1"));
  EXPECT_THAT(ErrorOf(".section .debug_str /* open"), HasSubstr("the text ends"));
  EXPECT_THAT(ErrorOf(""), HasSubstr("no .version"));
}

TEST(ParserTest, ReportsKnownDirectivesAsUnsupported) {
  for (const char* text : {".func f() { T: .calltargets f; }", ".global .texref t;",
                           ".entry k() { .reg .v4 .b32 r<2>; }", ".func f(.reg .b32 r) { ret; }",
                           ".entry k() .newdirective { ret; }"}) {
    const auto module = Parse(WithHeader(text));
    ASSERT_FALSE(module.has_value()) << text;
    if (std::string(text).find("texref") != std::string::npos) continue;
    EXPECT_EQ(module.error().code, ErrorCode::kUnsupported) << text;
  }
}

TEST(ParserTest, RejectsHugeSizes) {
  EXPECT_THAT(ErrorOf(Kernel(".reg .b32 %r<4000000000>;")), HasSubstr("4000000000"));
  EXPECT_THAT(ErrorOf(Kernel(".reg .b32 %a<1000000>; .reg .b32 %b<1000000>;")),
              HasSubstr("too many registers"));
  EXPECT_THAT(ErrorOf(Kernel(std::string(1000000, '{'))), HasSubstr("nested too deeply"));
  std::string elements = "r";
  for (int i = 0; i < 2000; ++i) elements += ",r";
  EXPECT_THAT(ErrorOf(Kernel(".reg .b32 r; x {" + elements + "};")), HasSubstr("vector too long"));
  EXPECT_THAT(ErrorOf(WithHeader(".global .b8 x[1000000000000][1000000000000];")),
              HasSubstr("array too large"));
  EXPECT_THAT(ErrorOf(WithHeader(".global .align 3 .b8 x;")), HasSubstr("power of two"));
  EXPECT_THAT(ErrorOf(WithHeader(".global .b8 x[2] = {1,2,3};")), HasSubstr("longer than"));
  EXPECT_THAT(ErrorOf(WithHeader(".entry k(.param .b8 p[4000000000]) { }")),
              HasSubstr("too large"));
  std::string many_functions;
  for (int i = 0; i < 5; ++i) {
    many_functions += fmt::format(".entry k{}() {{ .reg .b32 %r<1048576>; }}\n", i);
  }
  EXPECT_THAT(ErrorOf(WithHeader(many_functions)), HasSubstr("too many registers"));
  std::string chain = Kernel("");
  chain.resize(chain.size() - 7);  // open the body again
  for (int i = 1; i < 400; ++i) {
    chain += fmt::format(".loc 1 {} 1, function_name f, inlined_at 1 {} 1\n", i, i - 1);
  }
  EXPECT_THAT(ErrorOf(chain + "ret;\n}\n"), HasSubstr("inlined too deeply"));
}

TEST(DemangleTest, NamesOfCpp) {
  EXPECT_EQ(Demangle("_Z3fooIfLi4EEvPKT_"), "void foo<float, 4>(float const*)");
}

}  // namespace
}  // namespace cupel::ptx
