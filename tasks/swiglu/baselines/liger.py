# SPDX-License-Identifier: Apache-2.0
requires = ["liger-kernel"]


def liger(x):
    from liger_kernel.ops.swiglu import LigerFusedGateUpSiLUMulFunction
    return LigerFusedGateUpSiLUMulFunction.apply(x)
