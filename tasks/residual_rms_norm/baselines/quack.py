# SPDX-License-Identifier: Apache-2.0
requires = ["quack-kernels", "nvidia-cutlass-dsl"]


def quack(x, residual, weights, eps):
    from quack.rmsnorm import rmsnorm
    return rmsnorm(x, weights, residual=residual, eps=eps, prenorm=True)
