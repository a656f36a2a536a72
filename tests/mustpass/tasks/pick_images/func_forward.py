# Boxes carry the number of their image as a float in column 0, as RoI operators have it.
# SPDX-License-Identifier: Apache-2.0
import torch
import torch.nn as nn


def forward_fn(x, boxes):
    """x: [4, columns]; boxes: [rows, 2]. Returns the image of each box, times the box's weight."""
    return x[boxes[:, 0].long()] * boxes[:, 1:]


class Model(nn.Module):
    def forward(self, x, boxes, fn=forward_fn):
        return fn(x, boxes)


def get_inputs(rows=50, columns=64):
    return [torch.randn(4, columns), torch.stack([torch.randint(0, 4, (rows,)).float(), torch.rand(rows)], 1)]


input_names = ["x", "boxes"]
