# What would make Python run something else than the __init__ and forward that are followed, or nothing:
# an answer that does such a thing is refused before it is followed.
# SPDX-License-Identifier: Apache-2.0
import ast
import re

from extract_values import Refused

RUN_INSTEAD = ("__call__", "_call_impl", "__new__", "__getattr__", "__getattribute__", "__setattr__",
               "__init_subclass__")
HOOK = re.compile(r"register_\w*hook")
SETTINGS = ("backends", "config")  # torch.backends.cudnn.benchmark = True changes no result's meaning


def root_of(node):
    """The name that a.b.c begins with, and the other names."""
    parts = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    return (node.id if isinstance(node, ast.Name) else ""), parts


def stored(tree):
    for node in ast.walk(tree):
        if isinstance(node, (ast.Attribute, ast.Name)) and isinstance(node.ctx, (ast.Store, ast.Del)):
            yield node


def check(tree):
    known = {n.name for n in tree.body if isinstance(n, ast.ClassDef)}
    imported = {(a.asname or a.name).split(".")[0] for n in ast.walk(tree)
                if isinstance(n, (ast.Import, ast.ImportFrom)) for a in n.names}
    for node in tree.body:
        if isinstance(node, ast.Raise):
            raise Refused(node, "the file raises an error when it is imported")
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            check_class(node)
        elif isinstance(node, ast.Attribute) and HOOK.fullmatch(node.attr):
            raise Refused(node, "%s: hooks are not followed" % node.attr)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            if node.func.id in ("setattr", "delattr"):
                raise Refused(node, "%s is not followed" % node.func.id)
    for node in stored(tree):
        if isinstance(node, ast.Name):
            continue
        root, parts = root_of(node)
        text = ast.unparse(node)[:60]
        if node.attr == "forward" or node.attr in RUN_INSTEAD:
            raise Refused(node, "%s replaces a method" % text)
        if root in known:
            raise Refused(node, "%s changes a class after it is defined" % text)
        if root in imported and not set(SETTINGS) & set(parts):
            raise Refused(node, "%s changes what belongs to %s" % (text, root))


def check_class(node):
    if node.decorator_list:
        raise Refused(node, "class %s has a decorator" % node.name)
    if node.keywords:
        raise Refused(node, "class %s has a metaclass or the like" % node.name)
    for part in node.body:
        name = getattr(part, "name", "")
        if name in RUN_INSTEAD:
            raise Refused(part, "class %s defines %s, which Python may run in forward's place" %
                          (node.name, name))
        bound = () if name else stored(part)
        for other in bound:
            if isinstance(other, ast.Name) and other.id in ("forward", "__init__") + RUN_INSTEAD:
                raise Refused(part, "class %s makes %s of something else" % (node.name, other.id))
