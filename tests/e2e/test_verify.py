"""Records as evidence: `cupel verify` accepts true records, and detects edited records and other files."""
import hashlib
import json
import pathlib
import re
import shutil
import unittest

import kernels
from support import CupelTest, SOURCE, ci_share

def with_digest(text):
    """A record with the digest of its content (docs/formats/verdict.md). Numbers keep their form."""
    content = json.loads(text, parse_float=lambda number: "#" + number)
    digest = content["digest"]
    for member in ("timing", "digest", "signatures"):
        content.pop(member, None)
    compact = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    compact = re.sub(r'"#([^"]*)"', r"\1", compact)
    return text.replace(digest, hashlib.sha256(compact.encode()).hexdigest())


GPU = pathlib.Path("/dev/nvidiactl").exists()

SOMETIMES = """
import torch


def forward_fn(x):
    if x.shape[0] == 9:
        raise ValueError("nine rows")
    return x + x


class Model(torch.nn.Module):
    def forward(self, x, fn=forward_fn):
        return fn(x)


def get_inputs(rows=8):
    return [torch.randn(rows, 16)]
"""

DOUBLE = r"""
#include <torch/extension.h>

__global__ void Double(const float* x, float* y, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = x[i] + x[i];
}

torch::Tensor forward(torch::Tensor x) {
  auto y = torch::empty_like(x);
  Double<<<(x.numel() + 127) / 128, 128>>>(x.data_ptr<float>(), y.data_ptr<float>(), x.numel());
  return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
"""


@ci_share(2)
class Verify(CupelTest):
    def record(self, source, *args, name="record.json"):
        record = self.folder / name
        done = self.check(source, "--json", record, *args)
        return done, record, json.loads(record.read_text())

    def verify(self, *args, env=None):
        report = self.folder / "verification.json"
        report.unlink(missing_ok=True)
        done = self.cupel("verify", *args, "--json", report, env=env)
        done.json = json.loads(report.read_text()) if report.exists() else None
        return done

    def test_repeats_a_verdict_from_its_recorded_seeds(self):
        for source, status in ((kernels.LINEAR, 0), (kernels.linear("sum + b[col]", "sum"), 1)):
            with self.subTest(status=status):
                done, record, stored = self.record(source)
                self.assertEqual(done.status, status, done)
                self.assertEqual(stored["seed_origin"], "entropy")
                self.assertTrue(stored["settings"][0]["cases"])
                again = self.verify(record)
                self.assertEqual(again.status, 0, f"{again}\n{again.json}")
                self.assertIn("VERIFIED", again.out)
                self.assertEqual(again.json["differences"], [])
                self.assertEqual(again.json["repeated"], stored["verdict"])

    def test_repeats_a_seeded_verdict_with_another_cache(self):
        done, record, stored = self.record(kernels.LINEAR, "--seed", "11")
        env = {**self.environment(), "CUPEL_CACHE": str(self.folder / "other")}
        again = self.verify(record, env=env)
        self.assertEqual(again.status, 0, f"{again}\n{again.json}")

    def test_repeats_a_verdict_if_the_reference_fails_at_some_settings(self):
        task = self.folder / "sometimes"
        task.mkdir()
        (task / "func_forward.py").write_text(SOMETIMES)
        for configs, status in (([{"rows": 8}, {"rows": 9}], 0), ([{"rows": 9}], 2)):
            with self.subTest(configs=configs):
                (task / "config_forward.json").write_text(json.dumps({"multi_input_configs": configs}))
                kernel, record = self.write("double.cu", DOUBLE), self.folder / "record.json"
                done = self.cupel("check", kernel, "--task", task, "--settings", "multi", "--device", "emu",
                                  "--json", record)
                stored = json.loads(record.read_text())
                self.assertEqual(done.status, status, done)
                statuses = {setting["description"]: setting["status"] for setting in stored["settings"]}
                self.assertEqual(statuses.get("rows=9"), "no_reference", statuses)
                if status == 0:
                    self.assertIn("1 of 2 settings, where the task's own reference fails: multi-1 (",
                                  " ".join(stored["not_checked"]))
                again = self.verify(record)
                self.assertEqual(again.status, 0, f"{again}\n{again.json}")
                self.assertEqual(again.json["repeated"], stored["verdict"])

    def test_detects_an_edited_record(self):
        _, record, stored = self.record(kernels.linear("sum + b[col]", "sum"), "--seed", "3")
        self.assertEqual(stored["verdict"], "rejected")
        forged = json.loads(record.read_text())
        forged["verdict"], forged["reasons"] = "accepted", []
        record.write_text(json.dumps(forged, indent=2, ensure_ascii=False) + "\n")
        done = self.verify(record)
        self.assertEqual(done.status, 1, done)
        self.assertIn("NOT VERIFIED", done.out)
        checks = {check["name"]: check["same"] for check in done.json["checks"]}
        self.assertFalse(checks["digest"])
        self.assertEqual(done.json["repeated"], "rejected")
        self.assertIn("verdict", [d["where"] for d in done.json["differences"]])

    def home_with_other_headers(self):
        home = self.folder / "home"
        home.mkdir()
        for path in SOURCE.iterdir():
            if path.name in {"python", "share", "src", "tasks"}:
                (home / path.name).symlink_to(path)
        shutil.copytree(SOURCE / "shim", home / "shim")
        self.folder.chmod(0o755)  # under root, the compiler runs as another user
        header = home / "shim/torch/extension.h"
        header.write_text(header.read_text() + "// another version\n")
        return home

    def test_records_of_other_versions_are_compared_by_their_verdicts(self):
        _, record, stored = self.record(kernels.LINEAR, "--seed", "3")
        self.assertEqual(with_digest(record.read_text()), record.read_text())
        limit = json.dumps(stored["settings"][0]["trials"][0]["outputs"][0]["rms_limit"])
        other = self.write("other.json", with_digest(record.read_text().replace(limit, "0.25")))
        done = self.verify(other)
        self.assertEqual(done.status, 1, f"of this version, a number decides: {done}")
        self.assertFalse(done.json["by_other_version"])
        env = {**self.environment(), "CUPEL_HOME": str(self.home_with_other_headers())}
        done = self.verify(other, env=env)
        self.assertEqual(done.status, 0, done)
        self.assertTrue(done.json["by_other_version"])
        self.assertIn("rms_limit", done.json["changes"][0]["where"])
        self.assertIn("VERDICT VERIFIED", done.out)
        self.assertIn("not confirmed, since the record names other tools", done.out)
        other.write_text(with_digest(other.read_text().replace('"verdict": "accepted"', '"verdict": "rejected"')))
        done = self.verify(other, env=env)
        self.assertEqual(done.status, 1, done)
        self.assertIn("verdict", [difference["where"] for difference in done.json["differences"]])

    def test_detects_a_record_of_another_kernel(self):
        _, record, _ = self.record(kernels.LINEAR, "--seed", "3")
        other = self.write("other.cu", kernels.LINEAR + "// changed\n")
        done = self.verify(record, "--kernel", other)
        self.assertEqual(done.status, 1, done)
        self.assertIn("source    DIFFERS", done.out)
        self.assertEqual(done.json["repeated"], "")

    def test_reports_why_a_record_cannot_be_repeated(self):
        _, record, _ = self.record(kernels.LINEAR, "--seed", "3")
        (self.folder / "kernel.cu").unlink()
        done = self.verify(record)
        self.assertEqual(done.status, 2, done)
        self.assertIn("--kernel", done.err)
        record.write_text("{}")
        done = self.verify(record)
        self.assertEqual(done.status, 2, done)
        self.assertIn("record.json", done.err)

    def test_verifies_each_of_several_records(self):
        _, good, _ = self.record(kernels.LINEAR, "--seed", "3", name="good.json")
        done = self.verify(good, good)
        self.assertEqual(done.status, 0, done)
        self.assertEqual((done.json["holds"], done.json["verified"]), (True, 2))
        forged = self.write("forged.json", good.read_text().replace('"accepted"', '"rejected"', 1))
        none = self.write("none.json", "{}")
        done = self.verify(none, forged, good)
        self.assertEqual(done.status, 1, done)
        self.assertIn("1 of 3 records verified, 1 not verified, 1 not read", done.out)
        self.assertEqual([result["holds"] for result in done.json["records"]], [False, False, True])
        self.assertIn("none.json", done.json["records"][0]["error"])
        self.assertEqual(self.verify(none, good).status, 2)
        self.assertEqual(self.verify(good, good, "--task", "mnist_linear").status, 2)

    @unittest.skipIf(GPU, "with a GPU these records are judged again, which takes long")
    def test_checks_the_hashes_of_gpu_records_without_a_gpu(self):
        records = [record for record in sorted((SOURCE / "kernels").glob("*/*/kernel.json"))
                   if json.loads(record.read_text())["device"].startswith("gpu")]
        self.assertGreater(len(records), 17)
        done = self.verify(*records)
        self.assertEqual(done.status, 2, done)
        self.assertEqual((done.json["not_repeated"], done.json["verified"]), (len(records), 0), done.out)
        self.assertIn(f"0 of {len(records)} records verified, {len(records)} not repeated", done.out)
        for record, result in zip(records, done.json["records"]):
            with self.subTest(record=str(record.relative_to(SOURCE))):
                self.assertEqual(result["record"], str(record))
                self.assertFalse(result["holds"])
                self.assertIn("GPU", result["not_repeated"])
                self.assertIn("cupel check", result["not_repeated"])
        self.assertEqual(self.verify(records[0]).status, 2)
        edited = self.write("edited.json", records[0].read_text().replace('"accepted"', '"rejected"', 1))
        done = self.verify(edited, "--kernel", records[0].with_suffix(".cu"))
        self.assertEqual(done.status, 1, done)
        self.assertIn("NOT VERIFIED", done.out)

    def test_a_record_lists_the_sandbox_and_what_was_not_checked(self):
        _, _, stored = self.record(kernels.LINEAR, "--seed", "3")
        for process in ("compiler", "recorder"):
            self.assertTrue(stored["sandbox"][process]["enough"])
            self.assertTrue(stored["sandbox"][process]["seccomp"])
        self.assertIn("speed on a GPU", stored["not_checked"])
        for member in ("program_sha256", "shim_sha256", "oracle_sha256"):
            self.assertRegex(stored["tools"][member], "^[0-9a-f]{64}$")
        for member in ("shared_object", "ptx", "cubin"):
            self.assertRegex(stored["image_sha256"][member], "^[0-9a-f]{64}$")
        self.assertGreater(stored["environment"]["cores"], 0)


if __name__ == "__main__":
    unittest.main(verbosity=2)
