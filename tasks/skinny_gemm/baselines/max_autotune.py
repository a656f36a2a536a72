# torch.compile, which tries Triton's products and the library's.
# SPDX-License-Identifier: Apache-2.0
import torch
import torch.nn.functional as F

max_autotune = torch.compile(F.linear, mode="max-autotune-no-cudagraphs")
