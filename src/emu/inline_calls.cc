// Calls are replaced by the bodies of what they call: every call has registers and labels of its
// own, and parameters are the caller's variables. Recursion and calls through pointers stay
// unsupported. printf has no effect; a failed assertion becomes a fault. SPDX-License-Identifier:
// Apache-2.0
#include <fmt/format.h>

#include <map>

#include "emu/decode.h"
#include "ptx/parser.h"

namespace cupel::emu {
namespace {

using ptx::Function;
using ptx::Instr;
using ptx::Operand;
using ptx::OperandKind;

constexpr size_t kMostInstructions = 1 << 20;
constexpr int kDeepest = 32;

class Inliner {
 public:
  explicit Inliner(const ptx::Module& module) : module_(module) {}

  Inlined Run(const Function& function) {
    out_.function = function;
    out_.function.body.clear();
    out_.function.labels.clear();
    out_.function.branch_table_targets.clear();
    out_.function.registers.clear();
    out_.function.variables.clear();
    Copy(function, {}, 0);
    return std::move(out_);
  }

 private:
  /// Appends a copy of `callee`'s body; `names` maps its parameters to the caller's variables.
  void Copy(const Function& callee, std::map<std::string, std::string> names, int depth) {
    Function& out = out_.function;
    if (depth > kDeepest || out.body.size() + callee.body.size() > kMostInstructions) {
      return Stop("calls nested too deeply (recursion)");
    }
    const auto registers = static_cast<int>(out.registers.size());
    out.registers.insert(out.registers.end(), callee.registers.begin(), callee.registers.end());
    const std::string prefix = depth == 0 ? "" : fmt::format("{}$", ++copies_);
    for (const ptx::Variable& variable : callee.variables) {
      ptx::Variable copy = variable;
      if (variable.space != ptx::Space::kShared) {
        copy.name = prefix + variable.name;
        names[variable.name] = copy.name;
      }
      out.variables.push_back(std::move(copy));
    }
    const int tables = static_cast<int>(out.branch_table_targets.size());
    for (const auto& table : callee.branch_table_targets) out.branch_table_targets.push_back(table);
    // Where each instruction of the callee lands; branch targets are patched afterwards.
    std::vector<int> at(callee.body.size() + 1, 0);
    std::vector<size_t> mine;
    for (size_t i = 0; i < callee.body.size() && out_.error.empty(); ++i) {
      at[i] = static_cast<int>(out.body.size());
      Instr instr = callee.body[i];
      Rename(&instr, registers, tables, names);
      if (instr.op == "call") {
        Call(instr, depth);
        continue;
      }
      if (depth > 0 && instr.op == "ret") {
        instr.op = "bra";
        instr.modifiers.clear();
        instr.operands.assign(1, Operand{});
        instr.operands[0].kind = OperandKind::kLabel;
        instr.operands[0].target = static_cast<int>(callee.body.size());
      }
      mine.push_back(out.body.size());
      out.body.push_back(std::move(instr));
    }
    at[callee.body.size()] = static_cast<int>(out.body.size());
    for (size_t index : mine) {
      for (Operand& operand : out.body[index].operands) {
        if (operand.kind == OperandKind::kLabel)
          operand.target = at[static_cast<size_t>(operand.target)];
      }
    }
    for (size_t t = 0; t < callee.branch_table_targets.size(); ++t) {
      for (int& target : out.branch_table_targets[static_cast<size_t>(tables) + t]) {
        target = at[static_cast<size_t>(target)];
      }
    }
  }

  static void RenameOperand(Operand* operand, int registers,
                            const std::map<std::string, std::string>& names) {
    if (operand->reg >= 0) operand->reg += registers;
    if (operand->kind == OperandKind::kSymbol || operand->kind == OperandKind::kAddress) {
      const auto found = names.find(operand->symbol);
      if (found != names.end()) operand->symbol = found->second;
    }
    for (Operand& element : operand->elements) RenameOperand(&element, registers, names);
  }
  static void Rename(Instr* instr, int registers, int tables,
                     const std::map<std::string, std::string>& names) {
    if (instr->guard >= 0) instr->guard += registers;
    for (Operand& operand : instr->operands) RenameOperand(&operand, registers, names);
    if (instr->op == "brx" && instr->operands.size() == 2) instr->operands[1].target += tables;
  }

  void Call(const Instr& call, int depth) {
    if (call.operands.size() != 3 || call.operands[1].kind != OperandKind::kSymbol) {
      return Stop("a call through a pointer");
    }
    if (call.guard >= 0) return Stop("a guarded call");
    const std::string& name = call.operands[1].symbol;
    if (name == "__assertfail" || name == "__assert_fail") return Append(call, "@assertfail");
    if (name == "vprintf") return;
    const Function* callee = module_.Find(name);
    if (callee == nullptr || callee->is_declaration) {
      return Stop(
          fmt::format("a call of '{}', which the module does not define", ptx::Demangle(name)));
    }
    std::map<std::string, std::string> names;
    if (!Bind(callee->returns, call.operands[0], &names) ||
        !Bind(callee->params, call.operands[2], &names)) {
      return Stop(fmt::format("a call of '{}' with these parameters", ptx::Demangle(name)));
    }
    Copy(*callee, std::move(names), depth + 1);
  }

  static bool Bind(const std::vector<ptx::Param>& params, const Operand& arguments,
                   std::map<std::string, std::string>* names) {
    if (params.size() != arguments.elements.size()) return false;
    for (size_t i = 0; i < params.size(); ++i) {
      if (arguments.elements[i].kind != OperandKind::kSymbol) return false;
      (*names)[params[i].name] = arguments.elements[i].symbol;
    }
    return true;
  }

  void Append(const Instr& like, const char* op) {
    Instr instr;
    instr.op = op;
    instr.location = like.location;
    out_.function.body.push_back(std::move(instr));
  }
  void Stop(std::string why) {
    if (!out_.error.empty()) return;
    out_.error = std::move(why);
    out_.at = static_cast<int>(out_.function.body.size()) - 1;
  }

  const ptx::Module& module_;
  Inlined out_;
  int copies_ = 0;
};

}  // namespace

Inlined InlineCalls(const ptx::Module& module, const ptx::Function& function) {
  return Inliner(module).Run(function);
}

}  // namespace cupel::emu
