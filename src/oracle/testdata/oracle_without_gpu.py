# oracle.py with a simulated GPU: its tensors are recognized by their memory, and operators that mix
# them with other tensors fail, as CUDA's do. For oracle_test.cc, which links it into a folder with
# oracle.py.
# SPDX-License-Identifier: Apache-2.0
import contextlib
import os
import sys

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

sys.path.insert(0, os.path.dirname(os.path.abspath(sys.argv[0])))
import case_server
import float64_place
import oracle
from tensor_values import leaves, tree_map

GPU = torch.device("cuda", 0)
there = {}  # address: tensor, kept alive so that no other tensor gets its memory


def is_there(tensor):
    return isinstance(tensor, torch.Tensor) and tensor.storage().data_ptr() in there


def put_there(tensor):
    if tensor.numel():
        there[tensor.storage().data_ptr()] = tensor
    return tensor


class Watch(TorchDispatchMode):
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        tensors = [t for t in leaves((list(args), list(kwargs.values())))
                   if isinstance(t, torch.Tensor) and t.numel()]
        anywhere = [t for t in tensors if t.dim() == 0]  # CPU scalars may mix with all tensors
        here = [t for t in tensors if not is_there(t) and not any(t is a for a in anywhere)]
        # An index that PyTorch makes from a single boolean is made on the device of self.
        own = str(func).startswith("aten.index.Tensor")
        if here and not own and any(is_there(t) for t in tensors):
            raise RuntimeError("Expected all tensors to be on the same device, but %s" % func)
        result = func(*args, **kwargs)
        if any(is_there(t) for t in tensors):
            tree_map(lambda t: put_there(t) if isinstance(t, torch.Tensor) else t, result)
        return result


class Answer(TorchFunctionMode):
    """Says that tensors there are on a CUDA device, and makes tensors there."""

    def __torch_function__(self, function, types, args=(), kwargs=None):
        kwargs = dict(kwargs or {})
        if function == torch.Tensor.is_cuda.__get__:
            return is_there(args[0])
        if function == torch.Tensor.device.__get__:
            return GPU if is_there(args[0]) else torch.device("cpu")
        if function is torch.Tensor.to and len(args) > 1 and args[1] == GPU:
            return args[0] if is_there(args[0]) else put_there(args[0].clone())
        if kwargs.get("device") != GPU:
            return function(*args, **kwargs)
        return put_there(function(*args, **dict(kwargs, device="cpu")))


class Pretended(float64_place.Gpu):
    def open(self):
        self.device = GPU
        print("opened", file=sys.stderr)

    def put(self, tensor_or_module):
        if isinstance(tensor_or_module, torch.nn.Module):
            for t in list(tensor_or_module.parameters()) + list(tensor_or_module.buffers()):
                put_there(t.data)
            return tensor_or_module
        return put_there(tensor_or_module.clone())

    def holds(self, tensor):
        return is_there(tensor)

    @contextlib.contextmanager
    def work(self):
        with super().work(), Watch(), Answer():
            yield

    def release(self):
        there.clear()


def raise_if_broken(*arguments):
    if broken:
        raise RuntimeError("CUDA error: an illegal memory access was encountered")


def seed(number, draw=torch.manual_seed):
    raise_if_broken()  # as PyTorch, which seeds the GPUs, too
    return draw(number)


broken = []  # a task makes it true
torch.manual_seed, torch.cuda.synchronize = seed, raise_if_broken
torch.cuda.device = lambda device: contextlib.nullcontext()
float64_place.Gpu = Pretended
float64_place.LARGE, float64_place.PATIENCE = 16, 0.5
if __name__ == "__main__":
    sys.exit(oracle.serve(case_server.Server))
