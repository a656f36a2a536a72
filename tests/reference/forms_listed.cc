// Forms that are not a single entry of the interpreter's table.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "fast.h"
#include "forms.h"
#include "ptx/names.h"

namespace cupel::reference {
namespace {

using ptx::Type;

class List {
 public:
  Form& Add(std::string name, std::vector<int> inputs, std::vector<int> outputs, std::string body) {
    Form& form = forms_.emplace_back();
    form.name = std::move(name);
    form.inputs = std::move(inputs);
    form.outputs = std::move(outputs);
    form.body = std::move(body);
    return form;
  }
  std::vector<Form> Take() { return std::move(forms_); }

 private:
  std::vector<Form> forms_;
};

void AddCarries(List& list) {
  for (const char* type : {"u32", "s32", "u64", "s64"}) {
    const int bits = BitsOf(ptx::TypeNamed(type));
    const std::vector<int> in(4, bits), out(2, bits);
    for (const char* op : {"add", "sub"}) {
      list.Add(fmt::format("{}.cc.{}", op, type), in, out,
               fmt::format("{0}.cc.{1} %o0, %a0, %a1;\n{0}c.{1} %o1, %a2, %a3;\n", op, type));
      list.Add(fmt::format("{}c.cc.{}", op, type), in, out,
               fmt::format("{0}.cc.{1} %o0, %a0, %a1;\n{0}c.cc.{1} %o0, %a2, %a3;\n"
                           "{0}c.{1} %o1, %a1, %a2;\n",
                           op, type));
    }
    for (const char* half : {"lo", "hi"}) {
      list.Add(
          fmt::format("mad.{}.cc.{}", half, type), in, out,
          fmt::format("mad.{0}.cc.{1} %o0, %a0, %a1, %a2;\nmadc.{0}.cc.{1} %o1, %a0, %a3, %a1;\n"
                      "madc.{0}.{1} %o1, %o1, %a0, %a2;\n",
                      half, type));
    }
  }
}

void AddCompares(List& list) {
  const char* const types[] = {"u16", "s16", "u32", "s32",  "u64",   "s64",
                               "f32", "f64", "f16", "bf16", "f16x2", "bf16x2"};
  for (const char* type : types) {
    const Type named = ptx::TypeNamed(type);
    const bool is_float = FormatOf(named) != nullptr;
    const bool packed = named == Type::kF16x2 || named == Type::kBF16x2;
    const int bits = BitsOf(named);
    for (const char* relation : {"eq", "lt", "ge", "neu", "leu", "nan", "num"}) {
      if (!is_float && relation[2] != 0) continue;
      for (const char* combine : {"", ".and", ".or", ".xor"}) {
        const std::string tail = fmt::format("{}{}.{}", relation, combine, type);
        const std::string third = combine[0] == 0 ? "" : ", %a2";
        if (!is_float || bits > 16) {
          list.Add("setp." + tail + " p|q", {bits, bits, 1}, {1, 1},
                   fmt::format("setp.{} %o0|%o1, %a0, %a1{};\n", tail, third));
        }
        if (combine[0] != 0 && !packed) {
          list.Add("setp." + tail + " !c", {bits, bits, 1}, {1},
                   fmt::format("setp.{} %o0, %a0, %a1, !%a2;\n", tail));
        }
        for (const char* to : {"u32", "s32", "f32", "f16", "bf16", "u16", "f16x2", "bf16x2"}) {
          const bool same = std::string_view(to) == type;
          const bool to_packed = std::string_view(to).ends_with("x2");
          const bool to_half =
              std::string_view(to).starts_with("f16") || std::string_view(to).starts_with("bf16");
          if (to_half && !same) continue;
          if (std::string_view(to) == "f32" && (bits == 16 || packed)) continue;
          if (std::string_view(to) == "u16" && std::string_view(type) != "f16" &&
              std::string_view(type) != "bf16") {
            continue;
          }
          const int width = to_packed ? 32 : BitsOf(ptx::TypeNamed(to));
          const std::string name = fmt::format("set.{}{}.{}.{}", relation, combine, to, type);
          list.Add(name, {bits, bits, 1}, {width},
                   fmt::format("{} %o0, %a0, %a1{};\n", name, third));
        }
      }
    }
  }
}

void AddParts(List& list) {
  list.Add("mov.b64 {2}", {32, 32}, {64}, "mov.b64 %o0, {%a0, %a1};\n");
  list.Add("mov.b32 {2}", {16, 16}, {32}, "mov.b32 %o0, {%a0, %a1};\n");
  list.Add("mov.b64 {4}", {16, 16, 16, 16}, {64}, "mov.b64 %o0, {%a0, %a1, %a2, %a3};\n");
  list.Add("mov {2}.b64", {64}, {32, 32}, "mov.b64 {%o0, %o1}, %a0;\n");
  list.Add("mov {2}.b32", {32}, {16, 16}, "mov.b32 {%o0, %o1}, %a0;\n");
  list.Add("mov {4}.b64", {64}, {16, 16},
           ".reg .b16 %x, %y;\nmov.b64 {%o0, %x, %o1, %y}, %a0;\nxor.b16 %o0, %o0, %y;\n"
           "sub.u16 %o1, %o1, %x;\n");
  list.Add("mov {_}.b64", {64}, {32}, "mov.b64 {_, %o0}, %a0;\n");
  list.Add("mov.b32 {4 bytes}", {}, {32, 32},
           ".reg .b8 %x<8>;\nld.global.u8 %x0, [%in];\nld.global.u8 %x1, [%in+1];\n"
           "ld.global.u8 %x2, [%in+8];\nld.global.u8 %x3, [%in+9];\n"
           "mov.b32 %o0, {%x0, %x1, %x2, %x3};\nld.global.u32 %o1, [%in+16];\n"
           "mov.b32 {%x4, %x5, %x6, %x7}, %o1;\nmov.b32 %o1, {%x7, %x5, %x6, %x4};\n");
  for (const int table : {0xca, 0x96, 0xe8, 0x01, 0x80}) {
    list.Add(fmt::format("lop3.b32 {:#x}", table), {32, 32, 32}, {32},
             fmt::format("lop3.b32 %o0, %a0, %a1, %a2, {:#x};\n", table));
  }
}

/// Sets %s to the address of the thread's 8 bytes in `space`, which is shared or local.
std::string Window(const std::string& space, bool generic) {
  const bool shared = space == "shared";
  std::string text = fmt::format(".{} .align 16 .b8 cell[{}];\n.reg .b{} %s;\n", space,
                                 shared ? 32 * kFormBlock : 32, generic ? 64 : 32);
  if (!generic) {
    text += "mov.u32 %s, cell;\n";
    return text + (shared ? "mov.u32 %j, %tid.x;\nshl.b32 %j, %j, 5;\nadd.u32 %s, %s, %j;\n" : "");
  }
  text += fmt::format("mov.u64 %s, cell;\ncvta.{}.u64 %s, %s;\n", space);
  return text +
         (shared ? "mov.u32 %j, %tid.x;\nmul.wide.u32 %at, %j, 32;\nadd.s64 %s, %s, %at;\n" : "");
}

void AddAtomics(List& list) {
  struct Kind {
    const char* op;
    std::vector<const char*> types;
  };
  const Kind kinds[] = {
      {"add", {"u32", "s32", "u64", "f32", "f64", "f16", "bf16", "f16x2", "bf16x2"}},
      {"min", {"u32", "s32", "u64", "s64"}},
      {"max", {"u32", "s32", "u64", "s64"}},
      {"inc", {"u32"}},
      {"dec", {"u32"}},
      {"and", {"b32", "b64"}},
      {"or", {"b32", "b64"}},
      {"xor", {"b32", "b64"}},
      {"exch", {"b32", "b64"}},
      {"cas", {"b16", "b32", "b64"}}};
  for (const Kind& kind : kinds) {
    for (const std::string type : kind.types) {
      const Type named = ptx::TypeNamed(type);
      const int bits = BitsOf(named);
      const std::string op = kind.op;
      // The modifier that addition of the 16-bit formats requires.
      const std::string noftz =
          FormatOf(named) != nullptr && type != "f32" && type != "f64" ? ".noftz" : "";
      const std::string third = op == "cas" ? ", %a2" : "";
      for (const std::string space : {"global", "shared", "generic"}) {
        const std::string where = space == "generic" ? "" : "." + space;
        const std::string cell = space == "global" ? "[%out+8]" : "[%s]";
        std::string setup = space == "global" ? "" : Window("shared", space == "generic");
        setup += fmt::format("st{}.b{} {}, %a0;\n", where, bits, cell);
        std::string finish;
        if (space != "global") {
          finish = fmt::format("ld{0}.b{1} %o1, {2};\nst.global.b{1} [%out+8], %o1;\n", where, bits,
                               cell);
        }
        const std::string words = fmt::format("{}.{}{}.{}", where, op, noftz, type);
        Form& atom =
            list.Add("atom" + words, {bits, bits, bits}, {bits, bits},
                     setup + fmt::format("atom{} %o0, {}, %a1{};\n", words, cell, third) + finish);
        auto finish_form = [&](Form& form) {
          form.body_stores = 1;
          form.float_result = FormatOf(named);
        };
        finish_form(atom);
        if (op == "exch" || op == "cas") continue;
        finish_form(list.Add("red" + words, {bits, bits}, {bits, bits},
                             setup +
                                 fmt::format("mov.b{} %o0, %a0;\nred{} {}, %a1;\n",
                                             bits == 16 ? 16 : bits, words, cell) +
                                 finish));
      }
    }
  }
}

void AddAccesses(List& list) {
  const char* const types[] = {"b8",  "u8",  "s8",  "b16", "u16", "s16", "b32",
                               "u32", "s32", "b64", "u64", "s64", "f32", "f64"};
  for (const std::string type : types) {
    const int bits = BitsOf(ptx::TypeNamed(type));
    for (const int count : {1, 2, 4}) {
      if (bits * count > 128) continue;
      const std::string reg = bits == 64 ? "b64" : (bits == 32 ? "b32" : "b16");
      const std::string vector = count == 1 ? "" : fmt::format(".v{}", count);
      const std::string value = count == 1   ? "%x0"
                                : count == 2 ? "{%x0, %x1}"
                                             : "{%x0, %x1, %x2, %x3}";
      const std::string declare = fmt::format(".reg .{} %x<4>;\n", reg);
      for (const std::string space : {"global", "shared", "local", "generic", "global.nc"}) {
        std::string body = declare;
        body += fmt::format("ld.global{}.{} {}, [%in];\n", vector, type, value);
        if (space == "shared" || space == "local" || space == "generic") {
          const std::string where = space == "generic" ? "" : "." + space;
          body += Window(space == "local" ? "local" : "shared", space == "generic");
          body += fmt::format("st{}{}.{} [%s+16], {};\n", where, vector, type, value);
          body += fmt::format("ld{}{}.{} {}, [%s+16];\n", where, vector, type, value);
        } else if (space == "global.nc") {
          body += fmt::format("ld.global.nc{}.{} {}, [%in];\n", vector, type, value);
        }
        body += fmt::format("st.global{}.{} [%out], {};\n", vector, type, value);
        Form& form =
            list.Add(fmt::format("ld/st.{}{}.{}", space, vector, type), {}, {64, 64}, body);
        form.body_stores = 2;
      }
    }
    if (bits < 64) {
      list.Add("ld.global." + type + " into b64", {}, {64},
               fmt::format("ld.global.{} %o0, [%in];\n", type));
      list.Add("ld.shared." + type + " into b32", {32}, {32},
               Window("shared", false) +
                   fmt::format("st.shared.b32 [%s], %a0;\nld.shared.{} %o0, [%s];\n", type));
    }
  }
}

/// Registers of 128 bits.
void AddWide(List& list) {
  const std::string declare = ".reg .b128 %q, %r, %s2;\n.reg .b64 %l, %h;\n";
  list.Add("mov.b128", {64, 64}, {64, 64},
           declare +
               "mov.b128 %q, {%a0, %a1};\nmov.b128 %r, %q;\nmov.b128 {%l, %h}, %r;\n"
               "mov.b128 %q, {%h, %l};\nmov.b128 {%o0, %o1}, %q;\n");
  for (const std::string space : {"global", "shared", "local", "generic"}) {
    const std::string where = space == "generic" ? "" : "." + space;
    std::string setup = declare, cell = "[%out]";
    if (space != "global") {
      setup += Window(space == "local" ? "local" : "shared", space == "generic");
      cell = "[%s]";
    }
    list.Add(fmt::format("ld/st{}.b128", where), {}, {64, 64},
             setup + fmt::format("ld.global.b128 %q, [%in];\nst{0}.b128 {1}, %q;\n"
                                 "ld{0}.b128 %r, {1};\nst.global.b128 [%out], %r;\n",
                                 where, cell))
        .body_stores = 2;
    if (space == "local") continue;
    for (const std::string operation : {"exch", "cas", "cas other"}) {
      const bool compares = operation != "exch";
      list.Add(fmt::format("atom{}.{}.b128", where, operation), {64, 64, 64, 64}, {64, 64},
               setup + fmt::format("mov.b128 %q, {{%a0, %a1}};\nst{0}.b128 {1}, %q;\n"
                                   "mov.b128 %q, {{%a2, %a3}};\nmov.b128 %r, {{{2}, %a1}};\n"
                                   "atom{0}.{3}.b128 %s2, {1}, {4}%q;\nld{0}.b128 %q, {1};\n"
                                   "mov.b128 {{%o0, %o1}}, %s2;\nmov.b128 {{%l, %h}}, %q;\n"
                                   "xor.b64 %o0, %o0, %h;\nxor.b64 %o1, %o1, %l;\n",
                                   where, cell, operation == "cas other" ? "%a2" : "%a0",
                                   compares ? "cas" : "exch", compares ? "%r, " : ""));
    }
  }
}

void AddWarps(List& list) {
  for (const char* mode : {"up", "down", "bfly", "idx"}) {
    list.Add(fmt::format("shfl.sync.{}.b32", mode), {32, 32, 32}, {32, 1},
             fmt::format("shfl.sync.{}.b32 %o0|%o1, %a0, %a1, %a2, 0xffffffff;\n", mode));
    list.Add(fmt::format("shfl.sync.{}.b32 usual", mode), {32}, {32},
             fmt::format("shfl.sync.{}.b32 %o0, %a0, 3, {}, -1;\n", mode,
                         std::string_view(mode) == "up" ? "0" : "0x1f"));
  }
  for (const char* vote : {"all.pred", "any.pred", "uni.pred"}) {
    list.Add(fmt::format("vote.sync.{}", vote), {1}, {1, 1},
             fmt::format("vote.sync.{0} %o0, %a0, -1;\nvote.sync.{0} %o1, !%a0, -1;\n", vote));
  }
  list.Add("vote.sync.ballot.b32", {1}, {32, 32},
           "vote.sync.ballot.b32 %o0, %a0, -1;\nvote.sync.ballot.b32 %o1, !%a0, -1;\n");
  for (const int bits : {32, 64}) {
    list.Add(fmt::format("match.any.sync.b{}", bits), {bits}, {32},
             fmt::format("match.any.sync.b{} %o0, %a0, -1;\n", bits));
    list.Add(fmt::format("match.all.sync.b{}", bits), {bits}, {32, 1},
             fmt::format("match.all.sync.b{} %o0|%o1, %a0, -1;\n", bits));
    list.Add(fmt::format("match.all.sync.b{} equal", bits), {}, {32, 1},
             fmt::format(".reg .b{0} %x;\nmov.b{0} %x, 7;\n"
                         "match.all.sync.b{0} %o0|%o1, %x, -1;\n",
                         bits));
  }
  for (const char* redux : {"add.u32", "min.u32", "max.u32", "add.s32", "min.s32", "max.s32",
                            "and.b32", "or.b32", "xor.b32"}) {
    list.Add(fmt::format("redux.sync.{}", redux), {32}, {32},
             fmt::format("redux.sync.{} %o0, %a0, -1;\n", redux));
  }
  list.Add("activemask.b32", {}, {32}, "activemask.b32 %o0;\n");
  list.Add("bar.red", {1}, {32, 1},
           "bar.red.popc.u32 %o0, 0, %a0;\nbar.red.and.pred %o1, 0, !%a0;\n");
  list.Add("barrier.red", {1}, {1}, "barrier.cta.red.or.aligned.pred %o0, 1, 256, %a0;\n");
}

void AddFlow(List& list) {
  list.Add("brx.idx", {32}, {32},
           ".reg .b32 %x;\nand.b32 %x, %a0, 3;\n"
           "ts: .branchtargets L0, L1, L2, L1;\nbrx.idx %x, ts;\n"
           "L0: mov.u32 %o0, 10;\nbra E;\nL1: add.u32 %o0, %x, 20;\nbra E;\n"
           "L2: mov.u32 %o0, 30;\nE: add.u32 %o0, %o0, %a0;\n");
}

}  // namespace

std::vector<Form> ListedForms() {
  List list;
  AddCarries(list);
  AddCompares(list);
  AddParts(list);
  AddAtomics(list);
  AddAccesses(list);
  AddWide(list);
  AddWarps(list);
  AddFlow(list);
  return list.Take();
}

std::vector<Form> AllForms() {
  const std::vector<std::string> keys = TableKeys();
  std::vector<std::string> unknown;
  std::vector<Form> forms = TableForms(keys, &unknown);
  for (Form& form : ListedForms()) forms.push_back(std::move(form));
  return forms;
}

}  // namespace cupel::reference
