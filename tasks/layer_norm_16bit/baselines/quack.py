# SPDX-License-Identifier: Apache-2.0
requires = ["quack-kernels", "nvidia-cutlass-dsl"]


def quack(x, weights, biases, eps):
    from quack.rmsnorm import layernorm_fwd
    return layernorm_fwd(x, weights.float(), biases.float(), eps)
