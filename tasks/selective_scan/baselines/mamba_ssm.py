# The selective scan of Mamba's authors.
# SPDX-License-Identifier: Apache-2.0
requires = ["mamba-ssm"]


def mamba_ssm(u, delta, A, B, C, D, delta_bias):
    from mamba_ssm.ops.selective_scan_interface import selective_scan_fn
    return selective_scan_fn(u, delta, A, B, C, D=D, delta_bias=delta_bias, delta_softplus=True)
