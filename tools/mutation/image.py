# SPDX-License-Identifier: Apache-2.0
"""The fingerprint of a compiled kernel. A mutant with the fingerprint of its parent is the same program.

Two parts are hashed:
- device code: the PTX without line numbers, comments and debug sections
- host code: the sections of the shared object that are executed or read, without the embedded device code
"""

import hashlib
import re
import struct

_HOST_SECTIONS = (b".text", b".rodata", b".data", b".data.rel.ro", b".data.rel.ro.local", b".init_array")


def fingerprint(folder):
    """The fingerprint of the image in `folder`, a folder of cupel's build cache."""
    return _device(folder / "candidate.ptx") + "-" + _host(folder / "candidate.so")


def _device(path):
    lines, depth = [], None
    for line in path.read_text(errors="replace").splitlines():
        line = line.partition("//")[0].strip()
        if line.startswith(".section") and ".debug" in line:
            depth = 0
        if depth is not None:  # inside a debug section, up to its closing brace
            depth += line.count("{") - line.count("}")
            if depth <= 0 and "}" in line:
                depth = None
        elif line and not re.match(r"\.(loc|file)\b", line):
            lines.append(re.sub(r"_[0-9a-f]{8}_(\d+_)?\w*?candidate\w*", "_FILE", line))
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16]


def _host(path):
    data = path.read_bytes()
    offset, = struct.unpack_from("<Q", data, 0x28)
    size, count, names = struct.unpack_from("<HHH", data, 0x3A)
    headers = [struct.unpack_from("<IIQQQQIIQQ", data, offset + i * size) for i in range(count)]
    table = headers[names][4]
    digest = hashlib.sha256()
    for header in headers:
        name = data[table + header[0]:data.index(b"\0", table + header[0])]
        if name in _HOST_SECTIONS and header[1] != 8:  # 8: SHT_NOBITS, no bytes in the file
            digest.update(name + data[header[4]:header[4] + header[5]])
    return digest.hexdigest()[:16]
