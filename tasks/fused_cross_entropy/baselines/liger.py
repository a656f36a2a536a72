# Liger's kernel as its function calls it, without that function's checks of the targets, which wait
# for the GPU. "Tokens" are 1 / scale, so its gradients and losses are those of the mean; a second,
# small operation makes losses of tokens. They are float32 (those of the function are of the type of
# the logits).
# SPDX-License-Identifier: Apache-2.0
import torch

requires = ["liger-kernel"]


def liger(logits, target, scale):
    import triton
    from liger_kernel.ops.cross_entropy import MAX_FUSED_SIZE, liger_cross_entropy_kernel
    rows, columns = logits.shape
    losses = torch.zeros(rows, dtype=torch.float32, device=logits.device)
    liger_cross_entropy_kernel[(rows,)](
        X_ptr=logits, X_stride=logits.stride(0), Y_ptr=target, Y_stride=target.stride(0),
        weight_ptr=None, loss_ptr=losses, z_loss_ptr=None, loss_stride=1, token_accuracy_ptr=None,
        token_accuracy_stride=0, predicted_tokens_ptr=None, predicted_tokens_stride=0,
        n_cols=columns, n_non_ignore=1 / scale, sum_non_ignore_weight=1 / scale, weight_sum=0.0,
        ignore_index=-100, lse_square_scale=0.0, label_smoothing=0.0, reduction="mean",
        softcap=None, RETURN_Z_LOSS=False, RETURN_TOKEN_ACCURACY=False,
        RETURN_PREDICTED_TOKENS=False,
        BLOCK_SIZE=min(MAX_FUSED_SIZE, triton.next_power_of_2(columns)), HAS_WEIGHT=False,
        HAS_SOFTCAPPING=False, HAS_GRADIENTS=True, num_warps=32)
    return losses / scale
