"""Malformed source text for `cupel build`: kernels that are cut, mixed up, or have random text inserted.

cupel must build each or reject it with a message (status 0, 1 or 3), within the compiler's limits. --count is
the number of sources; the sources are always the same.
"""
import argparse
import os
import pathlib
import random
import subprocess
import sys
import tempfile

CUPEL = os.environ["CUPEL_PROGRAM"]
SOURCE = pathlib.Path(os.environ["CUPEL_SOURCE_DIR"])
ODD = ["\0", "\xff", "#", "#include", "#define f(", "R\"x(", "'", "\"", "/*", "*/", "{", "}", "(", "<<<", ">>>", "\\\n",
       "template<", "__global__", "asm(\"", "??/", "%:", "1'0", "\x1b[2J", "@", "`", "\u202e", "#pragma", "#line 99999999999"]


def change(random_, text):
    at = random_.randrange(len(text))
    end = min(len(text), at + random_.randrange(1, 80))
    kind = random_.randrange(5)
    if kind == 0:
        return text[:at] + text[end:]
    if kind == 1:
        return text[:at]
    if kind == 2:
        return text[:at] + random_.choice(ODD) + text[at:]
    if kind == 3:
        return text[:end] + text[at:]
    return text[:at] + "".join(chr(random_.randrange(256)) for _ in range(20)) + text[end:]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=500)
    count = parser.parse_args().count
    good = [path.read_text() for path in sorted(SOURCE.glob("tasks/*/forward.cu"))]
    bad, built = 0, 0
    with tempfile.TemporaryDirectory(prefix="cupel-test-") as folder:
        kernel = pathlib.Path(folder) / "kernel.cu"
        env = {**os.environ, "CUPEL_HOME": str(SOURCE), "CUPEL_CACHE": folder + "/cache"}
        for i in range(count):
            random_ = random.Random(i)
            text = random_.choice(good)
            for _ in range(random_.randrange(1, 5)):
                text = change(random_, text) or "x"
            kernel.write_bytes(text.encode("utf-8", "surrogateescape"))
            done = subprocess.run([CUPEL, "build", str(kernel), "-q"], capture_output=True, env=env, cwd=folder,
                                  timeout=300)
            output = done.stdout.decode(errors="replace").strip()
            built += done.returncode == 0
            if done.returncode not in (0, 1, 3) or len(output) < 20 or "\x1b" in output:
                bad += 1
                print(f"source {i}: status {done.returncode}, {output!r}, "
                      f"{done.stderr.decode(errors='replace')!r}")
    print(f"{count} sources: {built} built, {bad} without a proper message")
    return bad > 0


if __name__ == "__main__":
    sys.exit(main())
