# Rejects answers in which Python might run something other than the evaluated __init__ and forward, before
# they are evaluated. So the judged kernels are those that were evaluated, even if an answer tries to hide
# something. SPDX-License-Identifier: Apache-2.0
import ast
import re

from extract_values import Refused

CALLED = "__call__"  # supported in classes that are not modules
RUN_INSTEAD = ("_call_impl", "_compiled_call_impl", "__new__", "__getattr__",
               "__getattribute__", "__setattr__", "__init_subclass__", CALLED)
HOOK = re.compile(r"_\w*hooks|register_\w*hook")
# Not supported, however they are used.
CHANGES = ("setattr", "delattr", "__setattr__", "__delattr__", "__dict__", "globals", "exec")
CHANGES_AS_NAME = ("eval", "vars")  # methods of other objects may have these names
SETTINGS = ("backends", "config")  # torch.backends.cudnn.benchmark = True does not change results
DECORATORS = re.compile(  # decorators of functions that do not change what the function does
    r"staticmethod|classmethod|torch\.(no_grad|inference_mode|enable_grad)\(\)|once_differentiable"
    r"|([\w.]*\.)?(custom_fwd|custom_bwd)(\(.*\))?|torch\.(jit\.ignore|compiler\.disable|_dynamo\.disable)"
    r"(\(\))?|(functools\.)?(lru_cache(\(.*\))?|cache)|([\w.]*\.)?override")


def root_of(node):
    """The first name of a.b.c, and the other names."""
    parts = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    return (node.id if isinstance(node, ast.Name) else ""), parts


def bound(node):
    """Names that a statement binds in its own scope."""
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        yield node.name
        return
    if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
        yield node.id
    elif isinstance(node, (ast.Import, ast.ImportFrom)):
        for alias in node.names:
            yield (alias.asname or alias.name).split(".")[0]
    elif isinstance(node, ast.ExceptHandler) and node.name:
        yield node.name
    for child in ast.iter_child_nodes(node):
        yield from bound(child)


def without_main(tree):
    """Removes main blocks, because KernelBench imports the file."""
    def is_main(node):
        return isinstance(node, ast.If) and re.fullmatch(
            "__name__ == '__main__'|'__main__' == __name__", ast.unparse(node.test))
    body = []
    for node in tree.body:
        body += node.orelse if is_main(node) else [node]
    tree.body = body
    return tree


def check(tree):
    classes = [n for n in ast.walk(tree) if isinstance(n, ast.ClassDef)]
    inherited = {root_of(base)[0] for n in classes for base in n.bases}
    known = {n.name for n in classes}
    framework = {(a.asname or a.name).split(".")[0] for n in ast.walk(tree)
                 if isinstance(n, (ast.Import, ast.ImportFrom)) for a in n.names
                 if (getattr(n, "module", None) or a.name).split(".")[0] in ("torch", "builtins")}
    for node in classes:
        check_class(node, node.bases or node.name in inherited)
    copied = {k.value for n in ast.walk(tree) if isinstance(n, ast.Call) for k in n.keywords
              if k.arg is None}  # "…".format(**self.__dict__)
    for node in ast.walk(tree):
        for name in mentioned(node) if node not in copied else ():
            if HOOK.fullmatch(name):
                raise Refused(node, "%s: hooks are not supported" % name)
            if name in CHANGES or isinstance(node, ast.Name) and name in CHANGES_AS_NAME:
                raise Refused(node, "%s is not supported" % name)
        if isinstance(node, ast.Attribute) and not isinstance(node.ctx, ast.Load):
            check_store(node, known, framework)


def mentioned(node):
    if isinstance(node, ast.Name):
        return [node.id]
    if isinstance(node, ast.Attribute):
        return [node.attr]
    if isinstance(node, ast.alias):
        return [node.name.split(".")[-1]]
    return []


def check_store(node, known, framework):
    root, parts = root_of(node)
    text = ast.unparse(node)[:60]
    if node.attr in ("forward",) + RUN_INSTEAD or "__class__" in parts:
        raise Refused(node, "%s replaces a method" % text)
    if root in known:
        raise Refused(node, "%s changes a class after it is defined" % text)
    if root in framework and not set(SETTINGS) & set(parts):
        raise Refused(node, "%s changes an attribute of %s" % (text, root))


def check_class(node, is_module):
    """Checks how a class defines its methods. `is_module`: it is a module or has subclasses."""
    for decorator in node.decorator_list:
        if root_of(getattr(decorator, "func", decorator))[0] not in ("dataclass", "dataclasses"):
            raise Refused(node, "class %s has a decorator" % node.name)
    if node.keywords:
        raise Refused(node, "class %s has a metaclass or other keywords" % node.name)
    for part in node.body:
        for name in bound(part):
            if name in RUN_INSTEAD and (is_module or name != CALLED):
                raise Refused(part, "class %s defines %s, which Python may run instead of forward" %
                              (node.name, name))
            if name in ("forward", "__init__", CALLED) and not isinstance(part, ast.FunctionDef):
                raise Refused(part, "class %s defines %s without a plain def" % (node.name, name))


def check_decorators(node):
    """Checks the decorators of a function to be evaluated."""
    for decorator in node.decorator_list:
        if not DECORATORS.fullmatch(ast.unparse(decorator)):
            raise Refused(node, "%s has the decorator %s, which is not supported" %
                          (node.name, ast.unparse(decorator)[:60]))
