// The environment that Python children get: ours (they are the user's PyTorch), and settings of
// speed. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>

namespace cupel::oracle {

std::map<std::string, std::string> ChildEnvironment();

}  // namespace cupel::oracle
