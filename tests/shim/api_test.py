#!/usr/bin/env python3
"""Checks that api.cu uses every name in shim/api.md, the list for models, and that it compiles.

SPDX-License-Identifier: Apache-2.0
"""
import pathlib
import re
import subprocess
import sys

nvcc, shim = sys.argv[1:3]
source = pathlib.Path(__file__).with_name('api.cu')
code = source.read_text()
listed = set(re.findall(r'`([^`]+)`', pathlib.Path(shim, 'api.md').read_text().split('Not available:')[0]))
missing = sorted(n for n in listed if not re.search(r'(?<![\w:])' + re.escape(n) + r'(?!\w)', code))
if len(listed) < 80 or missing:
    sys.exit(f'{len(listed)} names; api.cu lacks {missing}')
# The flags with which the build compiles candidates.
flags = ['-std=c++17', '-arch=sm_90', '--use_fast_math', '--expt-relaxed-constexpr', '-D__CUDA_NO_HALF_OPERATORS__',
         '-D__CUDA_NO_HALF_CONVERSIONS__', '-D__CUDA_NO_BFLOAT16_CONVERSIONS__', '-D__CUDA_NO_HALF2_OPERATORS__']
out = subprocess.run([nvcc, *flags, '-I', shim, '-Xcompiler', f'-idirafter,{shim}/cublas', '-c', source, '-o', '/dev/null'], capture_output=True, text=True)
if out.returncode:
    sys.exit(out.stdout + out.stderr)
