// Replaces calls by the bodies of the called functions. Every inlined copy has its own registers
// and labels; its parameters are the caller's variables. Functions that are recursive or called
// through pointers keep their own bodies (calls.h), which come before the kernel's body.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "emu/decode/decoder.h"
#include "ptx/parser.h"

namespace cupel::emu {
namespace {

using ptx::Function;
using ptx::Instr;
using ptx::Opcode;
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
    called_ = FunctionsToCall(module_, function);
    out_.functions.resize(called_.size());
    for (size_t i = 0; i < called_.size() && out_.error.empty(); ++i) CopyCalled(i);
    out_.entry = static_cast<int>(out_.function.body.size());
    out_.entry_register = static_cast<int>(out_.function.registers.size());
    Copy(function, {}, 0);
    return std::move(out_);
  }

 private:
  /// Appends a function that is called out of line. Its parameters become its own variables.
  void CopyCalled(size_t index) {
    const Function& function = *called_[index];
    CalledFunction& called = out_.functions[index];
    ptx::Function& out = out_.function;
    called.function = &function;
    called.begin = static_cast<int>(out.body.size());
    called.first_register = static_cast<int>(out.registers.size());
    called.first_variable = out.variables.size();
    called.parameters = function.returns.size() + function.params.size();
    std::map<std::string, std::string> names;
    for (const auto* params : {&function.returns, &function.params}) {
      for (const ptx::Param& param : *params) {
        ptx::Variable variable;
        variable.name = names[param.name] = fmt::format("{}${}", function.name, param.name);
        variable.space = ptx::Space::kParam;
        variable.align = param.align;
        variable.bytes = param.bytes;
        out.variables.push_back(std::move(variable));
      }
    }
    Copy(function, std::move(names), 1);
    Instr back;
    back.op = Opcode::kReturn;
    if (!out.body.empty()) back.location = out.body.back().location;
    out.body.push_back(std::move(back));
    called.end = static_cast<int>(out.body.size());
    called.end_register = static_cast<int>(out.registers.size());
    called.end_variable = out.variables.size();
  }

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
    // The new index of each instruction of the callee; branch targets are patched afterwards.
    std::vector<int> at(callee.body.size() + 1, 0);
    std::vector<size_t> mine;
    for (size_t i = 0; i < callee.body.size() && out_.error.empty(); ++i) {
      at[i] = static_cast<int>(out.body.size());
      Instr instr = callee.body[i];
      Rename(&instr, registers, tables, names);
      if (instr.op == Opcode::kCall) {
        Call(instr, callee, depth);
        continue;
      }
      if (depth > 0 && instr.op == Opcode::kRet) {
        instr.op = Opcode::kBra;
        instr.modifiers = {};
        instr.unknown.clear();
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
    if (instr->op == Opcode::kBrx && instr->operands.size() == 2)
      instr->operands[1].target += tables;
  }

  void Call(const Instr& call, const Function& caller, int depth) {
    if (call.operands.size() == 4 && call.operands[1].kind == OperandKind::kRegister) {
      return CallThroughPointer(call, caller);
    }
    if (call.operands.size() < 3 || call.operands[1].kind != OperandKind::kSymbol) {
      return Stop("a call of this kind");
    }
    const std::string& name = call.operands[1].symbol;
    const Function* callee = module_.Find(name);
    const bool defined = callee != nullptr && !callee->is_declaration;
    if (name == "__assertfail" && !defined) return Report(call, Opcode::kAssertFail, 5, 0);
    if (name == "vprintf" && !defined) return Report(call, Opcode::kPrintf, 2, 1);
    if (name == "malloc" && !defined) return Report(call, Opcode::kMalloc, 1, 1);
    if (name == "free" && !defined) return Report(call, Opcode::kFree, 1, 0);
    const auto called = std::find(called_.begin(), called_.end(), callee);
    if (defined && called != called_.end() && !IsInlinable(*callee)) {
      return CallOutOfLine(call, callee->returns, callee->params,
                           static_cast<int>(called - called_.begin()));
    }
    if (callee == nullptr || callee->is_declaration) {
      return Stop(
          fmt::format("a call of '{}', which the module does not define", ptx::Demangle(name)));
    }
    std::map<std::string, std::string> names;
    if (!Bind(callee->returns, call.operands[0], &names) ||
        !Bind(callee->params, call.operands[2], &names)) {
      return Stop(fmt::format("a call of '{}' with these parameters", ptx::Demangle(name)));
    }
    const size_t branch = out_.function.body.size();
    if (call.guard >= 0) out_.function.body.push_back(BranchAround(call));
    Copy(*callee, std::move(names), depth + 1);
    if (call.guard >= 0) {
      out_.function.body[branch].operands[0].target = static_cast<int>(out_.function.body.size());
    }
  }

  /// The branch of the lanes that do not take part in a guarded call.
  static Instr BranchAround(const Instr& call) {
    Instr branch;
    branch.op = Opcode::kBra;
    branch.location = call.location;
    branch.guard = call.guard;
    branch.guard_negated = !call.guard_negated;
    branch.operands.emplace_back().kind = OperandKind::kLabel;
    return branch;
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

  /// A function whose address is taken can still be inlined where it is called by name, unless it
  /// is recursive.
  bool IsInlinable(const Function& callee) {
    const auto [known, is_new] = recursive_.try_emplace(&callee, false);
    if (is_new) known->second = CallsItself(module_, callee);
    return !known->second;
  }

  /// Emits a function of CUDA's runtime: printf, a failed assertion, malloc, free. The operands are
  /// the variables of the parameters, then of the result.
  void Report(const Instr& call, Opcode op, size_t arguments, size_t results) {
    if (call.operands[2].elements.size() != arguments ||
        call.operands[0].elements.size() != results) {
      return Stop("a call with these parameters");
    }
    Instr instr;
    instr.op = op;
    instr.location = call.location;
    instr.guard = call.guard;
    instr.guard_negated = call.guard_negated;
    instr.operands = call.operands[2].elements;
    for (const Operand& result : call.operands[0].elements) instr.operands.push_back(result);
    out_.function.body.push_back(std::move(instr));
  }

  void CallThroughPointer(const Instr& call, const Function& caller) {
    const auto prototype = static_cast<size_t>(call.operands[3].target);
    if (call.operands[3].target < 0 || prototype >= caller.prototypes.size()) {
      return Stop("a call through a pointer without a prototype");
    }
    CallOutOfLine(call, caller.prototypes[prototype].returns, caller.prototypes[prototype].params,
                  -1);
  }

  void CallOutOfLine(const Instr& call, const std::vector<ptx::Param>& returns,
                     const std::vector<ptx::Param>& params, int callee) {
    const std::vector<Operand>& results = call.operands[0].elements;
    const std::vector<Operand>& arguments = call.operands[2].elements;
    if (results.size() != returns.size() || arguments.size() != params.size()) {
      return Stop("a call with these parameters");
    }
    if (!params.empty() && params.back().bytes == 0) {
      return Stop("a call of a variadic function that is not inlined");
    }
    const std::vector<uint32_t> offsets = ParameterOffsets(returns, params);
    CallSite site;
    site.callee = callee;
    for (size_t i = 0; i < returns.size(); ++i) {
      site.results.push_back({results[i].symbol, offsets[i], returns[i].bytes});
    }
    for (size_t i = 0; i < params.size(); ++i) {
      site.arguments.push_back({arguments[i].symbol, offsets[returns.size() + i], params[i].bytes});
    }
    Instr instr;
    instr.op = Opcode::kCallOutOfLine;
    instr.location = call.location;
    instr.guard = call.guard;
    instr.guard_negated = call.guard_negated;
    Operand index;
    index.kind = OperandKind::kImmediate;
    index.bits = out_.calls.size();
    instr.operands.push_back(index);
    if (callee < 0) instr.operands.push_back(call.operands[1]);
    // List the variables as operands, so that they get a place in memory.
    for (const auto* list : {&results, &arguments}) {
      instr.operands.insert(instr.operands.end(), list->begin(), list->end());
    }
    out_.calls.push_back(std::move(site));
    out_.function.body.push_back(std::move(instr));
  }

  void Stop(std::string why) {
    if (!out_.error.empty()) return;
    out_.error = std::move(why);
    out_.at = static_cast<int>(out_.function.body.size()) - 1;
  }

  const ptx::Module& module_;
  std::vector<const Function*> called_;
  std::map<const Function*, bool> recursive_;
  Inlined out_;
  int copies_ = 0;
};

}  // namespace

Inlined InlineCalls(const ptx::Module& module, const ptx::Function& function) {
  return Inliner(module).Run(function);
}

}  // namespace cupel::emu
