# SPDX-License-Identifier: Apache-2.0
requires = ["liger-kernel"]


def liger(x, residual, weights, eps):
    from liger_kernel.ops.fused_add_rms_norm import LigerFusedAddRMSNormFunction
    return LigerFusedAddRMSNormFunction.apply(x, residual, weights, eps, 0.0, "llama", False)
