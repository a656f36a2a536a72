// Empty on purpose. libstdc++ declares its parallel algorithms here. No candidate uses them, and
// they cost 0.15 s per build (they include <functional> and its containers).
// SPDX-License-Identifier: Apache-2.0
#pragma once
