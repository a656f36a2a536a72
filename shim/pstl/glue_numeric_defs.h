// Empty on purpose: libstdc++ declares its parallel algorithms here, which no candidate uses and
// which cost 0.15 s a build (they pull in <functional> and its containers).
// SPDX-License-Identifier: Apache-2.0
#pragma once
