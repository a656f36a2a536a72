# Writes cases (docs/formats/case.md): safetensors files with the case's description in their metadata.
# Imported after PyTorch is loaded. SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import concurrent.futures
import ctypes
import hashlib
import json
import mmap
import os
from collections.abc import Sequence
from typing import Any

import torch

import equal_choices
import float8
import float64_place
from distribution_checks import Inapplicable
from draw_base import Draw
from loaded_task import Task
from oracle_types import Json
from rankings import Ranking
from task_error import TaskError
from tensor_values import Outputs, storage_bytes

HASH_CHUNK = 16 << 20  # docs/formats/case.md: digest of digests
HASHED_BYTES = 96 << 20  # larger cases are never pooled (src/oracle/pool.h): their description identifies them
MOST_WRONG = 1 / 64  # of PyTorch's own integers: with more, a kind of inputs shows nothing
DTYPES = {  # torch name -> (safetensors name, bytes)
    "float64": ("F64", 8), "int64": ("I64", 8), "float32": ("F32", 4), "int32": ("I32", 4),
    "float16": ("F16", 2), "bfloat16": ("BF16", 2), "int16": ("I16", 2), "int8": ("I8", 1),
    "uint8": ("U8", 1), "bool": ("BOOL", 1), "float8_e4m3fn": ("F8_E4M3", 1),
    "float8_e5m2": ("F8_E5M2", 1),
}


def dtype_name(dtype: torch.dtype) -> str:
    name = str(dtype).replace("torch.", "")
    if name not in DTYPES:
        raise TaskError("a tensor has type %s, which cupel does not support" % name)
    return name


class CaseFile:
    """Writes a case: a safetensors file with the case's description in __metadata__."""

    def __init__(self) -> None:
        self.tensors = []  # (name, flat tensor, shape)
        self.share_wrong = 0.0  # of PyTorch's integers, at most in an output

    def add(self, name: str, tensor: torch.Tensor, shape: Sequence[int]) -> None:
        self.tensors.append((name, tensor, list(shape)))

    def value(self, v: Any) -> Json:
        """Describes one argument. Stores whole storages of tensors, to keep their strides."""
        if v is None:
            return {"kind": "none"}
        if isinstance(v, bool):
            return {"kind": "bool", "value": v}
        if isinstance(v, int):
            return {"kind": "int", "value": str(v)}
        if isinstance(v, float):
            return {"kind": "float", "value": v.hex()}
        if isinstance(v, str):
            return {"kind": "string", "value": v}
        if isinstance(v, (list, tuple)):
            return {"kind": "tuple", "items": [self.value(x) for x in v]}
        if isinstance(v, torch.Tensor):
            return self.tensor_argument(v)
        if hasattr(v, "item") and getattr(v, "shape", None) == ():  # numpy scalars
            return self.value(v.item())
        raise TaskError("an argument is a %s; a kernel can only get tensors, None, numbers, strings and "
                        "tuples" % type(v).__name__)

    def tensor_argument(self, t: torch.Tensor) -> Json:
        if t.layout != torch.strided or t.device.type != "cpu":
            raise TaskError("an argument is a %s tensor on %s; cases support dense CPU tensors only" %
                            (t.layout, t.device))
        if t.is_conj() or t.is_neg():
            t = t.clone()
        name = "storage.%d" % len(self.tensors)
        flat, strides, offset = t.detach(), list(t.stride()), t.storage_offset()
        if t.is_contiguous() and offset == 0:
            flat = flat.reshape(-1)
        elif t.numel() == 0:
            flat, offset = flat.reshape(-1), 0
        else:
            flat = flat.as_strided((storage_bytes(t) // t.element_size(),), (1,), 0)
        self.add(name, flat, flat.shape)
        return {"kind": "tensor", "storage": name, "dtype": dtype_name(t.dtype),
                "shape": list(t.shape), "strides": strides, "offset": offset}

    def output(self, i: int, name: str, reference: torch.Tensor | None, truth: torch.Tensor | None, scale: float,
               conditioning: float, rounds_to_float8: bool, neighbours: Sequence[torch.Tensor | None],
               ranking: Ranking | None) -> Json:
        if reference is None:
            return {"name": name, "none": True}
        if truth is None or truth.shape != reference.shape:
            raise TaskError("%s: the float64 run and the reference give different shapes" % name)
        exact = not reference.is_floating_point()
        with float64_place.place_of(truth).work():
            truth = truth.to(reference.dtype if exact else torch.float64).cpu()
        if float8.is_float8(reference.dtype):
            truth, rounds_to_float8 = float8.held(truth, reference.dtype), True
        keys: Json = {}
        labels = ranking.labels() if ranking is not None else None
        if ranking is not None and labels is not None:
            keys["ranking"] = {"labels": "output.%d.labels" % i, "dim": ranking.dim}
            self.add(keys["ranking"]["labels"], labels.reshape(-1), labels.shape)
            reference = with_truth(reference, truth, labels, ranking.dim)
        for what, tensor in (("reference", reference), ("truth", truth)):
            keys[what] = "output.%d.%s" % (i, what)
            self.add(keys[what], tensor.detach().reshape(-1), tensor.shape)
        if exact:
            self.share_wrong = max(self.share_wrong, wrong_share(reference, [truth, *neighbours]))
            # What PyTorch's own run gives is right, too.
            keys["neighbours"] = [self.neighbour(i, k, t, truth) for k, t in enumerate([*neighbours, reference])
                                  if t is not None and not torch.equal(t.to(truth.device), truth)]
        return {"name": name, "none": False, "dtype": dtype_name(reference.dtype),
                "shape": list(reference.shape), "error_scale": scale,
                "conditioning": conditioning, "rounds_to_float8": rounds_to_float8, **keys}

    def neighbour(self, i: int, k: int, tensor: torch.Tensor, truth: torch.Tensor) -> str:
        if tensor.shape != truth.shape:
            raise TaskError("the shape of output %d depends on how ties are rounded" % i)
        key = "output.%d.neighbour.%d" % (i, k)
        self.add(key, tensor.detach().to(truth.dtype).cpu().reshape(-1), tensor.shape)
        return key

    def write(self, folders: list[str], name: str, description: Json) -> tuple[str, int, str]:
        """Returns (path, bytes, digest). Widest types come first, so that all data is aligned without
        holes."""
        self.tensors.sort(key=lambda t: -DTYPES[dtype_name(t[1].dtype)][1])
        header, offset = {"__metadata__": {"cupel.case": json.dumps(description, allow_nan=False)}}, 0
        for key, flat, shape in self.tensors:
            code, size = DTYPES[dtype_name(flat.dtype)]
            end = offset + flat.numel() * size
            header[key] = {"dtype": code, "shape": shape, "data_offsets": [offset, end]}
            offset = end
        head = json.dumps(header).encode()
        head += b" " * (-(8 + len(head)) % 64)
        size = 8 + len(head) + offset
        path, fd = allocate(folders, name, size)
        try:
            start = write_at(fd, len(head).to_bytes(8, "little") + head, 0)
            for key, flat, _ in self.tensors:
                bytes_ = flat.numel() * flat.element_size()
                if bytes_:
                    flat = flat.contiguous()  # keeps its memory alive while it is read
                    memory = (ctypes.c_char * bytes_).from_address(flat.data_ptr())
                    write_at(fd, memory, start + header[key]["data_offsets"][0])
            if size > HASHED_BYTES:
                return path, size, hashlib.sha256(head).hexdigest()
            with mmap.mmap(fd, size) as memory:
                digest = digest_of(memory, size)
        finally:
            os.close(fd)
        return path, size, digest


def write_at(fd: int, memory: bytes | ctypes.Array[ctypes.c_char], offset: int) -> int:
    """Writes at an offset. pwrite avoids the page faults of a mapping."""
    view = memoryview(memory).cast("B")
    try:
        done = 0
        while done < len(view):
            done += os.pwrite(fd, view[done:done + HASH_CHUNK], offset + done)
        return done
    finally:
        view.release()


def allocate(folders: list[str], name: str, size: int) -> tuple[str, int]:
    """Creates the file in the first folder with enough space. Reserves the space, because writing to a
    full tmpfs raises SIGBUS."""
    error = None
    for folder in folders:
        path = os.path.join(folder, name)
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            os.posix_fallocate(fd, 0, size)
            return path, fd
        except OSError as e:
            error = e
            os.close(fd)
            os.unlink(path)
    raise OSError("a case of %.1f MB does not fit into %s (%s)" %
                  (size / 1e6, " or ".join(folders), error))


def digest_of(memory: mmap.mmap, size: int) -> str:
    view = memoryview(memory)
    try:
        def one(start: int) -> bytes:
            return hashlib.sha256(view[start:min(start + HASH_CHUNK, size)]).digest()
        starts = range(0, size, HASH_CHUNK)
        if len(starts) > 1:
            with concurrent.futures.ThreadPoolExecutor(os.cpu_count() or 1) as pool:
                digests = list(pool.map(one, starts))
        else:
            digests = [one(s) for s in starts]
        return hashlib.sha256(b"".join(digests)).hexdigest()
    finally:
        view.release()


def wrong_share(tensor: torch.Tensor, right: Sequence[torch.Tensor | None]) -> float:
    """The share of elements that equal those of no tensor in `right`."""
    found = torch.zeros(tensor.shape, dtype=torch.bool)
    for other in right:
        if other is not None and other.shape == tensor.shape:
            found |= tensor == other.detach().to(tensor.dtype).cpu()
    return 1 - float(found.double().mean()) if found.numel() else 0.0


def with_truth(reference: torch.Tensor, truth: torch.Tensor, labels: torch.Tensor, dim: int) -> torch.Tensor:
    """PyTorch's own indices, with the truth's where both name equal elements."""
    own, exact = ((t if t.dim() == labels.dim() else t.unsqueeze(dim)).to(torch.int64) for t in (reference, truth))
    same = labels.gather(dim, own) == labels.gather(dim, exact)
    return torch.where(same.reshape(truth.shape), truth, reference)


def write_case(task: Task, request: Json, folders: list[str], name: str, draw: Draw, reference: Outputs, truth: Outputs,
               scales: list[float]) -> Json:
    case = CaseFile()
    args = [case.value(a) for a in draw.args]
    conditions = scales[len(reference):]
    around, ranked = [[]] * len(reference), [None] * len(reference)
    if any(r is not None and not r.is_floating_point() for r in reference):
        around, ranked = list(zip(*draw.neighbours())) or around, draw.rankings() or ranked
        if draw.trace.equals > equal_choices.MOST and request.get("distribution", "usual") != "usual":
            raise Inapplicable("more than %d elements are equally large, and any may be named" % equal_choices.MOST)
    outputs = [case.output(i, n, r, t, s, c, draw.trace.rounds_to_float8, a, k) for i, (n, r, t, s, c, a, k) in
               enumerate(zip(draw.names, reference, truth, scales, conditions, around, ranked))]
    for i, tensor in enumerate(task.numbers.truth(draw, truth)):
        if tensor is not None:
            outputs[i]["rounded_truth"] = "output.%d.rounded_truth" % i
            case.add(outputs[i]["rounded_truth"], tensor.reshape(-1), tensor.shape)
    if case.share_wrong > MOST_WRONG and request.get("distribution", "usual") != "usual":
        raise Inapplicable("%.2g %% of PyTorch's own integers or indices are not those of float64" %
                           (100 * case.share_wrong))
    for output, position in zip(outputs[len(outputs) - len(draw.changed):], draw.changed):
        output["argument"] = position
    description = {"version": 1, "task": task.name, "direction": task.direction,
                   "seed": str(request["seed"]), "torch": torch.__version__,
                   "returns_tuple": draw.is_tuple, "args": args, "outputs": outputs}
    path, size, digest = case.write(folders, name, description)
    return {"file": path, "bytes": size, "digest": digest}
