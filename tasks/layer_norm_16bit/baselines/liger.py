# SPDX-License-Identifier: Apache-2.0
requires = ["liger-kernel"]


def liger(x, weights, biases, eps):
    from liger_kernel.ops.layer_norm import LigerLayerNormFunction
    return LigerLayerNormFunction.apply(x, weights, biases, eps)
