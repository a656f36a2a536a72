# torch.compile, which tries Triton's products and the library's.
# SPDX-License-Identifier: Apache-2.0
import torch

max_autotune = torch.compile(torch.bmm, mode="max-autotune-no-cudagraphs")
