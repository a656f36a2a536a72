# SPDX-License-Identifier: Apache-2.0
requires = ["liger-kernel"]


def liger(x):
    from liger_kernel.ops.softmax import LigerSoftmaxFunction
    return LigerSoftmaxFunction.apply(x)
