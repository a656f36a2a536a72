// SPDX-License-Identifier: Apache-2.0
#include "record/kernels.h"

#include <algorithm>
#include <string>

#include "record/read_mask.h"

namespace cupel::record {
namespace {

/// Product of a directive's up to three dimensions; 0 if the directive is absent.
int Product(const std::vector<int>& dims) {
  if (dims.empty()) return 0;
  int64_t product = 1;
  for (const int dim : dims) product = std::min<int64_t>(product * std::max(dim, 0), INT32_MAX);
  return static_cast<int>(product);
}

int StaticShared(const ptx::Module& module, const ptx::Function& function) {
  uint64_t bytes = 0;
  const auto add = [&](const std::vector<ptx::Variable>& variables) {
    for (const ptx::Variable& variable : variables) {
      if (variable.space != ptx::Space::kShared || variable.is_extern) continue;
      const auto align = static_cast<uint64_t>(std::max(variable.align, 1));
      bytes = (bytes + align - 1) / align * align + variable.bytes;
    }
  };
  add(module.variables);
  add(function.variables);
  return static_cast<int>(std::min<uint64_t>(bytes, INT32_MAX));
}

bool WaitsForLaunch(const ptx::Function& function) {
  return std::any_of(function.body.begin(), function.body.end(), [](const ptx::Instr& instr) {
    return instr.op == ptx::Opcode::kGriddepcontrol && instr.Has(ptx::Modifier::kWait);
  });
}

}  // namespace

std::vector<Kernel> KernelsOf(const ptx::Module& module, const build::Image& image) {
  std::vector<Kernel> kernels;
  const bool callee_waits =
      std::any_of(module.functions.begin(), module.functions.end(),
                  [](const ptx::Function& f) { return !f.is_entry && WaitsForLaunch(f); });
  for (const ptx::Function& function : module.functions) {
    if (!function.is_entry || function.is_declaration) continue;
    Kernel kernel;
    kernel.name = function.name;
    kernel.param_bytes = function.param_bytes;
    for (const ptx::Param& param : function.params) {
      kernel.params.push_back({param.offset, param.bytes});
    }
    kernel.read_mask = ReadMask(function);
    kernel.waits_for_launch = callee_waits || WaitsForLaunch(function);
    kernel.max_threads = Product(function.req_ntid.empty() ? function.max_ntid : function.req_ntid);
    for (size_t i = 0; i < 3; ++i) {
      if (!function.req_ntid.empty()) {
        kernel.required_block[i] = i < function.req_ntid.size() ? function.req_ntid[i] : 1;
      }
      if (!function.cluster_dims.empty()) {
        const int dim = i < function.cluster_dims.size() ? function.cluster_dims[i] : 1;
        kernel.cluster[i] = static_cast<uint32_t>(std::max(dim, 1));
      }
    }
    const auto resources =
        std::find_if(image.resources.begin(), image.resources.end(),
                     [&](const build::KernelResources& r) { return r.kernel == function.name; });
    if (resources != image.resources.end()) {
      kernel.registers = resources->registers;
      kernel.static_shared = resources->static_shared;
      kernel.local_bytes = resources->local_bytes;
      kernel.constant_bytes = resources->constant_bytes;
    } else {
      constexpr int kUnknownRegisters = 32;
      kernel.registers = kUnknownRegisters;
      kernel.static_shared = StaticShared(module, function);
    }
    kernels.push_back(std::move(kernel));
  }
  return kernels;
}

}  // namespace cupel::record
