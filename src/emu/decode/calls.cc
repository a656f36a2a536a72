// SPDX-License-Identifier: Apache-2.0
#include "emu/decode/calls.h"

#include <algorithm>
#include <map>
#include <set>

#include "emu/core/call_stacks.h"

namespace cupel::emu {
namespace {

using ptx::Function;
using ptx::Instr;
using ptx::Operand;
using ptx::OperandKind;

void CollectAddressed(const Operand& operand, std::set<std::string>* out) {
  if (operand.kind == OperandKind::kSymbol) out->insert(operand.symbol);
  for (const Operand& element : operand.elements) CollectAddressed(element, out);
}

/// The functions that a function calls, and the symbols whose address it takes.
struct Uses {
  std::set<std::string> calls, symbols;
  bool indirect = false;
};
Uses UsesOf(const Function& function) {
  Uses uses;
  for (const Instr& instr : function.body) {
    if (instr.op != ptx::Opcode::kCall || instr.operands.size() < 3) {
      for (const Operand& operand : instr.operands) CollectAddressed(operand, &uses.symbols);
    } else if (instr.operands[1].kind == OperandKind::kSymbol) {
      uses.calls.insert(instr.operands[1].symbol);
    } else {
      uses.indirect = true;
    }
  }
  return uses;
}

class CallGraph {
 public:
  explicit CallGraph(const ptx::Module& module) : module_(module) {
    for (const Function& function : module.functions) {
      if (function.is_declaration) continue;
      const Uses& uses = uses_[&function] = UsesOf(function);
      for (const std::string& symbol : uses.symbols) AddTarget(symbol);
    }
    for (const ptx::Variable& variable : module.variables) {
      for (const auto& init : variable.symbol_inits) AddTarget(init.symbol);
    }
  }

  /// All functions that may run when `from` runs; `from` itself only if it is recursive.
  std::set<const Function*> Reachable(const Function& from) const {
    std::set<const Function*> seen;
    std::vector<const Function*> open{&from};
    while (!open.empty()) {
      const Function* function = open.back();
      open.pop_back();
      const auto uses = uses_.find(function);
      if (uses == uses_.end()) continue;
      auto visit = [&](const Function* callee) {
        if (callee != nullptr && !callee->is_declaration && seen.insert(callee).second) {
          open.push_back(callee);
        }
      };
      for (const std::string& name : uses->second.calls) visit(module_.Find(name));
      if (uses->second.indirect) {
        for (const Function* target : targets_) visit(target);
      }
    }
    return seen;
  }
  bool CallsThroughPointers(const Function& function) const {
    const auto uses = uses_.find(&function);
    return uses != uses_.end() && uses->second.indirect;
  }
  const std::set<const Function*>& targets() const { return targets_; }

 private:
  void AddTarget(const std::string& symbol) {
    const Function* function = module_.Find(symbol);
    if (function != nullptr && !function->is_entry && !function->is_declaration) {
      targets_.insert(function);
    }
  }

  const ptx::Module& module_;
  std::map<const Function*, Uses> uses_;
  std::set<const Function*> targets_;  // functions whose address is taken
};

}  // namespace

std::vector<uint32_t> ParameterOffsets(const std::vector<ptx::Param>& results,
                                       const std::vector<ptx::Param>& arguments) {
  std::vector<uint32_t> offsets;
  uint32_t at = 0;
  for (const auto* list : {&results, &arguments}) {
    for (const ptx::Param& param : *list) {
      offsets.push_back(at);
      at += (param.bytes + kFrameAlign - 1) / kFrameAlign * kFrameAlign;
    }
  }
  return offsets;
}

bool CallsItself(const ptx::Module& module, const Function& function) {
  return CallGraph(module).Reachable(function).contains(&function);
}

std::vector<const Function*> FunctionsToCall(const ptx::Module& module, const Function& entry) {
  bool has_calls = false;
  for (const Instr& instr : entry.body) has_calls |= instr.op == ptx::Opcode::kCall;
  if (!has_calls) return {};
  const CallGraph graph(module);
  // `entry` may be a copy, but the call graph uses the module's own functions.
  const Function* own = module.Find(entry.name);
  if (own == nullptr) return {};
  std::set<const Function*> reachable = graph.Reachable(*own);
  bool indirect = graph.CallsThroughPointers(*own);
  for (const Function* function : reachable) indirect |= graph.CallsThroughPointers(*function);
  std::vector<const Function*> result;
  for (const Function& function : module.functions) {  // in the module's order
    if (!reachable.contains(&function)) continue;
    const bool pointed_to = indirect && graph.targets().contains(&function);
    if (pointed_to || graph.Reachable(function).contains(&function)) result.push_back(&function);
  }
  return result;
}

}  // namespace cupel::emu
