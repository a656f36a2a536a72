"""Writes the store of a made-up suite run on a GPU, to test reports and comparisons of measured times on
machines without a GPU."""
import json
import pathlib
import random
import re
import sqlite3
import statistics

# A task's name may be any valid folder name.
HOSTILE = "</script><script>document.title='pwned'</script><img src=x onerror=alert(1)>"
CEILINGS = {"gpu": "NVIDIA H200", "read_bytes": 4.2e12, "copy_bytes": 3.9e12, "fp32_flops": 5.9e13,
            "tf32_flops": 0, "bf16_flops": 0, "launch_us": 1.2}


def interval(samples):
    ordered = sorted(samples)
    n = len(ordered)
    return {"estimate": statistics.median(ordered), "low": ordered[n // 2 - 4], "high": ordered[n // 2 + 4],
            "confidence": 0.95}


def timing(name, samples, baseline, **more):
    return {"name": name, "baseline": baseline, "us": interval(samples), "spread_us": 0.1,
            "samples": len(samples), "samples_us": samples, "warm_us": 1, "host_us": 1,
            "bytes_per_second": 1e12, "roofline": more.pop("roofline", 0.4), **more}


class Kernel:
    """One item: its decision, and the times (kernel, eager, compile) of each setting in microseconds."""

    def __init__(self, task, direction="forward", kernel="forward.cu", decision="accepted", times=(), reason=None,
                 refused=None, work=(1e6, 4e6), reduced="", device="gpu (h200)"):
        self.task, self.direction, self.kernel, self.decision = task, direction, kernel, decision
        self.times, self.reason, self.refused, self.work = list(times), reason, refused, work
        self.reduced, self.device = reduced, device

    @property
    def id(self):
        return f"{self.task}/{self.direction}/{self.kernel}"

    def verdict(self):
        status = "passed" if self.decision == "accepted" else "failed"
        settings = [{"id": f"single-{i}", "kind": "single", "description": f"batch_size={2 ** i}", "status": status,
                     "derived": "", "reduced": self.reduced, "note": "", "largest_error": {"rms_over_limit": 0.02, "max_over_limit": 0.05},
                     "counters": {"estimated_us": 1.0, "launches": []}} for i in range(max(1, len(self.times)))]
        reasons = [self.reason] if self.reason else []
        return {"schema": "cupel.verdict/1", "verdict": self.decision, "reasons": reasons, "device": self.device,
                "seed": "5", "versions": {"torch": "2.11"}, "settings": settings, "timing": {"build_seconds": 9.5}}

    def bench(self, noise):
        if self.decision != "accepted" or not self.times or self.device.startswith("emu"):
            return None
        settings = []
        for i, (ours, eager, compiled) in enumerate(self.times):
            def draw(us):
                return [us * (1 + 0.01 * abs(noise.gauss(0, 1))) for _ in range(40)]
            samples = {self.kernel: draw(ours), "eager": draw(eager), "compile": draw(compiled)}
            timings = [timing("eager", samples["eager"], True), timing("compile", samples["compile"], True),
                       timing(self.kernel, samples[self.kernel], False, roofline=min(1.0, 0.3 + 0.1 * i))]
            if self.refused:
                timings[2] = {"name": self.kernel, "baseline": False, "refused": self.refused}
            comparisons = []
            for name in ("eager", "compile"):
                ratio = statistics.median(samples[self.kernel]) / statistics.median(samples[name])
                comparisons.append({"a": self.kernel, "b": name, "a_is": "faster",
                                    "ratio": {"estimate": ratio, "low": ratio * 0.98, "high": ratio * 1.02,
                                              "confidence": 0.99}})
            settings.append({"id": f"single-{i}", "timings": timings, "comparisons": comparisons,
                             "read_bytes": self.work[1] * 2 ** i, "written_bytes": 0,
                             "floating_point_operations": self.work[0] * 4 ** i})
        return {"schema": "cupel.bench/1", "gpu": "NVIDIA H200", "ceilings": CEILINGS, "settings": settings}


def schema(source):
    text = (source / "src/archive/suite_schema.cc").read_text()
    return re.search(r'R"sql\((.*?)\)sql"', text, re.S)[1], int(re.search(r"0x[0-9a-f]+", text)[0], 16)


def write_run(folder, source, kernels, without_kernel=(), pending=(), seed=1, status="finished",
              engine="gpu"):
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True)
    sql, application = schema(source)
    store = sqlite3.connect(folder / "suite.cupel")
    store.executescript(sql + f"PRAGMA user_version = 1; PRAGMA application_id = {application};")
    listing = {"without_kernel": [{"task": t, "direction": d} for t, d in without_kernel], "notes": [],
               "ceilings": CEILINGS}
    store.execute("INSERT INTO suites VALUES (1, ?, ?, ?, '0.1.0', '7', 1763600000000, 1763600000000)",
                  (status, json.dumps({"engine": engine}), json.dumps(listing)))
    noise = random.Random(seed)
    for position, kernel in enumerate([*kernels, *pending]):
        store.execute("INSERT INTO items VALUES (?, ?, ?, ?, ?, '/t', '/k', 't', 's')",
                      (kernel.id, position, kernel.task, kernel.direction, kernel.kernel))
        if kernel in pending:
            continue
        bench = kernel.bench(noise)
        decision = "rejected" if kernel.refused else kernel.decision
        store.execute("INSERT INTO outcomes VALUES (?, ?, ?, ?, '', '', 'local 0', 'worker', '', 12.5, 0)",
                      (kernel.id, decision, json.dumps(kernel.verdict()), bench and json.dumps(bench)))
    store.commit()
    store.close()
    return folder
