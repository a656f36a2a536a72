// SPDX-License-Identifier: Apache-2.0
#include "judge/provenance.h"

#include "os/sandbox_json.h"

namespace cupel::judge {
namespace {

Json ToJson(const Asked& asked) {
  return {{"task", asked.task},
          {"kinds", asked.kinds},
          {"trials", asked.trials},
          {"shadows", asked.shadows},
          {"integers", asked.integers},
          {"schedules", asked.schedules},
          {"reduced", asked.reduced},
          {"distributions", asked.distributions},
          {"engine", asked.engine},
          {"model", asked.model},
          {"arch", asked.arch},
          {"flags", asked.flags},
          {"include_roots", asked.include_roots}};
}

Json ToJson(const std::optional<os::SandboxReport>& report) {
  return report ? os::ToJson(*report) : Json();
}

}  // namespace

void AddProvenance(const Provenance& provenance, Json& record) {
  record["asked"] = ToJson(provenance.asked);
  record["image_sha256"] = {{"shared_object", provenance.shared_object_hash},
                            {"ptx", provenance.ptx_hash},
                            {"cubin", provenance.cubin_hash}};
  record["tools"] = {{"program_sha256", provenance.program_hash},
                     {"commit", provenance.commit},
                     {"shim_sha256", provenance.shim_hash},
                     {"oracle_sha256", provenance.oracle_hash}};
  record["sandbox"] = {{"compiler", ToJson(provenance.compiler)},
                       {"recorder", ToJson(provenance.recorder)}};
  record["environment"] = {{"host", provenance.host},
                           {"system", provenance.system},
                           {"processor", provenance.processor},
                           {"cores", provenance.cores}};
}

}  // namespace cupel::judge
