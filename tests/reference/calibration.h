// The worst error of each .approx instruction.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "forms.h"
#include "runner.h"

namespace cupel::reference {

/// Prints a line for each approximation among the forms. Returns the program's exit status.
int CalibrateAll(Runner& runner, const std::vector<Form>& forms);

}  // namespace cupel::reference
