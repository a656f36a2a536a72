"""Lets an exported package run with PyTorch older than 2.4: implements custom operators by autograd.Function,
and torch.compile as the identity. With a newer PyTorch it does nothing."""
import types

import torch
from torch.nn.utils import stateless


class Operator:
    def __init__(self, kernel, schema):
        self.kernel, self.schema, self.fake = kernel, schema, None
        self.backward = self.setup = None

    def register_fake(self, fake):
        self.fake = fake
        return fake

    def __call__(self, *args):
        self.check_fake(args)
        if self.backward is None:
            return self.kernel(*args)
        operator = self

        class Wired(torch.autograd.Function):
            @staticmethod
            def forward(ctx, *args):
                result = operator.kernel(*args)
                operator.setup(ctx=ctx, inputs=args, output=result)
                return result

            @staticmethod
            def backward(ctx, *grads):
                result = operator.backward(ctx, *grads)
                return result

        return Wired.apply(*args)

    def check_fake(self, args):
        """Checks that the fake implementation gives the kernel's shapes, types and strides."""
        results = [r if isinstance(r, tuple) else (r,) for r in (self.fake(*args), self.kernel(*args))]
        for fake, real in zip(*results):
            assert (fake.shape, fake.dtype, fake.stride()) == (real.shape, real.dtype, real.stride())


def install():
    if hasattr(torch.library, "custom_op"):
        return
    operators = {}
    torch.Tensor.untyped_storage = lambda tensor: tensor.storage()

    def custom_op(name, mutates_args, device_types, schema):
        torch._C.parse_schema(name + schema)

        def wrap(kernel):
            namespace, short = name.split("::")
            operators[name] = operator = Operator(kernel, schema)
            space = operators.setdefault(namespace, types.SimpleNamespace())
            setattr(space, short, types.SimpleNamespace(default=operator))
            setattr(torch.ops, namespace, space)
            return operator
        return wrap

    def register_autograd(name, backward, setup_context):
        operators[name].backward, operators[name].setup = backward, setup_context

    torch.library.custom_op = custom_op
    torch.library.register_autograd = register_autograd
    torch.library.opcheck = lambda op, args, test_utils: op(*args)
    torch.compile = lambda function, fullgraph: function
    if not hasattr(torch, "func"):
        torch.func = types.SimpleNamespace(functional_call=stateless.functional_call)
