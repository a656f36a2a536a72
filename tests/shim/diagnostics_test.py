#!/usr/bin/env python3
"""Compiles diagnostics.cu and checks that each use of framework mathematics gives an error on its line.

SPDX-License-Identifier: Apache-2.0
"""
import pathlib
import re
import subprocess
import sys

nvcc, shim = sys.argv[1:3]
source = pathlib.Path(__file__).with_name('diagnostics.cu')
out = subprocess.run([nvcc, '-std=c++17', '-arch=sm_90', '-I', shim, '-c', source, '-o', '/dev/null'],
                     capture_output=True, text=True)
got = {}
for name, line, message in re.findall(r'^(.*?)\((\d+)\): error: (.*)$', out.stdout + out.stderr, re.M):
    if name.endswith('diagnostics.cu'):
        got.setdefault(int(line), message)
    else:
        sys.exit(f'an error in a header of the shim: {name}({line}): {message}')
failed = out.returncode == 0
operators = set(pathlib.Path(shim, 'cupel/framework_operators.txt').read_text().split())
for number, line in enumerate(source.read_text().splitlines(), 1):
    if '// want: ' not in line:
        continue
    want = line.split('// want: ')[1]
    message = got.get(number, 'nothing')
    deleted = want.startswith('function') and 'cannot be referenced -- it is a deleted function' not in message
    member = re.search(r'(?:"at"|"torch"|"at::Tensor") has no member "(\w+)"', want)
    if not message.startswith(want) or deleted or (member and member[1] not in operators):
        print(f'line {number}: wanted {want!r}, got {message!r}')
        failed = True
sys.exit(1 if failed else 0)
