"""Candidates of several files: a folder, files by name, records of them, lists and suites."""
import json
import unittest

from support import CupelTest, ci_share

# Both .cu files have kernels and constants of the same names.
FILES = {
    "matmul.cu": r"""#include <cuda_runtime.h>
#include "headers/tile.h"
static __constant__ float factor;
static __global__ void run(const float* x, const float* w, float* y, int rows, int cols, int depth) {
  const int row = blockIdx.y * TILE + threadIdx.y, col = blockIdx.x * TILE + threadIdx.x;
  if (row >= rows || col >= cols) return;
  float sum = 0;
  for (int k = 0; k < depth; ++k) sum += x[row * depth + k] * w[col * depth + k];
  y[row * cols + col] = sum * factor;
}
void matmul(const float* x, const float* w, float* y, int rows, int cols, int depth) {
  const float one = 1;
  cudaMemcpyToSymbol(factor, &one, sizeof one);
  const dim3 grid((cols + TILE - 1) / TILE, (rows + TILE - 1) / TILE);
  run<<<grid, dim3(TILE, TILE)>>>(x, w, y, rows, cols, depth);
}
""",
    "bias.cu": r"""#include <cuda_runtime.h>
static __constant__ float factor;
static __global__ void run(const float* b, float* y, int count, int cols) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) y[i] += b[i % cols] * factor / 2;
}
void add_bias(const float* b, float* y, int count, int cols) {
  const float two = 2;
  cudaMemcpyToSymbol(factor, &two, sizeof two);
  run<<<(count + 255) / 256, 256>>>(b, y, count, cols);
}
""",
    "binding.cpp": r"""#include <torch/extension.h>
void matmul(const float* x, const float* w, float* y, int rows, int cols, int depth);
void add_bias(const float* b, float* y, int count, int cols);
torch::Tensor forward(torch::Tensor x, torch::Tensor weights, torch::Tensor biases) {
  const int rows = x.size(0), depth = x.size(1), cols = weights.size(0);
  auto y = torch::empty({rows, cols}, x.options());
  matmul(x.data_ptr<float>(), weights.data_ptr<float>(), y.data_ptr<float>(), rows, cols, depth);
  add_bias(biases.data_ptr<float>(), y.data_ptr<float>(), rows * cols, cols);
  return y;
}
PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
""",
    "headers/tile.h": "#define TILE 16\n",
}
SETUP = """import os
from setuptools import setup
from torch.utils.cpp_extension import BuildExtension, CUDAExtension
here = os.path.dirname(os.path.abspath(__file__))
setup(name="op", cmdclass={"build_ext": BuildExtension}, ext_modules=[CUDAExtension(
    "op._C", [os.path.join(here, "matmul.cu"), "bias.cu", "binding.cpp"], include_dirs=["headers", "/opt/none"],
    define_macros=[("FACTOR", "2")], extra_compile_args={"nvcc": ["-O3"]})])
"""
NAMED = ["op/matmul.cu", "--sources", "op/binding.cpp", "op/bias.cu"]


@ci_share()
class SeveralFiles(CupelTest):
    def setUp(self):
        super().setUp()
        self.op = self.folder / "op"
        (self.op / "headers").mkdir(parents=True)
        for name, text in FILES.items():
            (self.op / name).write_text(text)
        (self.op / "README.txt").write_text("not a source\n")

    def checked(self, *args, settings="single"):
        return self.cupel("check", *args, "--task", "mnist_linear", "--settings", settings, "--device", "emu",
                          "--distributions", "none", "--no-shadow", "--no-exact", "--seed", "7")

    def test_a_folder_and_files_by_name_are_accepted(self):
        folder = self.checked("op/")
        self.assertEqual(folder.status, 0, folder)
        self.assertIn("ACCEPTED: op for mnist_linear", folder.out)
        listed = [(file["name"], file["compiled"]) for file in folder.json["files"]]
        self.assertEqual(listed, [("bias.cu", True), ("binding.cpp", True), ("matmul.cu", True), ("headers/tile.h", False)])
        self.assertEqual(len(folder.json["resources"]), 2)
        named = self.checked(*NAMED)
        self.assertEqual(named.status, 0, named)
        self.assertIn("ACCEPTED: matmul.cu for mnist_linear", named.out)
        self.assertNotEqual(named.json["source_sha256"], folder.json["source_sha256"])

    def test_a_fault_names_its_file(self):
        path = self.op / "bias.cu"
        path.write_text(path.read_text().replace("if (i < count) y[i]", "y[i + count]"))
        done = self.checked("op")
        self.assertEqual(done.status, 1, done)
        self.assertIn("out_of_bounds", done.codes)
        self.assertIn("bias.cu:5", done.out)

    def test_a_missing_file_is_named(self):
        done = self.checked("op/matmul.cu", "--sources", "op/absent.cpp")
        self.assertEqual(done.status, 2, done)
        self.assertIn("absent.cpp", done.err)

    def test_records_of_several_files_are_verified(self):
        record = self.folder / "record.json"
        self.assertEqual(self.checked(*NAMED, "--json", record).status, 0)
        done = self.cupel("verify", record)
        self.assertEqual(done.status, 0, done)
        self.assertIn("VERIFIED", done.out)
        header = self.op / "headers" / "tile.h"
        header.write_text("#define TILE 8\n")
        done = self.cupel("verify", record)
        self.assertEqual(done.status, 1, done)
        self.assertRegex(done.out, r"headers/tile.h *DIFFERS")
        header.unlink()
        done = self.cupel("verify", record)
        self.assertEqual(done.status, 2, done)
        self.assertIn("headers/tile.h is missing", done.err)
        header.write_text(FILES["headers/tile.h"])

    def test_headers_above_are_found_in_a_folder_that_is_named(self):
        below = self.op / "src"
        below.mkdir()
        for name in ("matmul.cu", "bias.cu", "binding.cpp"):
            text = (self.op / name).read_text().replace('"headers/tile.h"', '"../headers/tile.h"')
            (below / name).write_text(text)
        self.assertIn("../headers/tile.h", (below / "matmul.cu").read_text())
        args = ["op/src/matmul.cu", "--sources", "op/src/binding.cpp", "op/src/bias.cu"]
        alone = self.checked(*args)
        self.assertEqual(alone.codes, {"compile_error"}, alone)
        record = self.folder / "record.json"
        done = self.checked(*args, "--include", "op", "--json", record)
        self.assertEqual(done.status, 0, done)
        listed = [file["name"] for file in json.loads(record.read_text())["files"]]
        self.assertEqual(listed, ["src/matmul.cu", "src/binding.cpp", "src/bias.cu", "headers/tile.h"])
        self.assertEqual(self.cupel("verify", record).status, 0)

    def test_lists_and_profiles_take_several_files(self):
        items = [{"kernel": "op", "task": "mnist_linear"},
                 {"kernel": "op/matmul.cu", "sources": ["op/binding.cpp", "op/bias.cu"], "task": "mnist_linear"}]
        self.write("list.jsonl", "".join(json.dumps(item) + "\n" for item in items))
        self.cupel("stream", "list.jsonl", "--device", "emu", "-o", "results.jsonl", "--trials", "1")
        results = [json.loads(line) for line in (self.folder / "results.jsonl").read_text().splitlines()]
        verdicts = sorted((result["kernel"], result["verdict"]) for result in results)
        self.assertEqual(verdicts, [("op", "accepted"), ("op/matmul.cu", "accepted")])
        done = self.cupel("profile", "op", "--task", "mnist_linear", "--device", "emu")
        self.assertEqual(done.status, 0, done)
        self.assertIn("sum += x[row * depth + k]", done.out)  # quotes the line of its file

    def test_suites_take_folders(self):
        self.write("list.jsonl", json.dumps({"kernel": "op", "task": "mnist_linear"}) + "\n")
        done = self.cupel("suite", "run", "list.jsonl", "--device", "emu", "--settings", "single", "--trials", "1",
                          "-o", "run", "--jobs", "1")
        self.assertEqual(done.status, 0, done)
        self.assertIn("accepted", (self.folder / "run" / "results.csv").read_text())

    def test_a_setup_script_is_run_in_the_locked_process(self):
        (self.op / "setup.py").write_text(SETUP)
        record = self.folder / "record.json"
        done = self.checked("op/setup.py", "--json", record)
        self.assertEqual(done.status, 0, done)
        self.assertIn("ACCEPTED: op for mnist_linear", done.out)
        self.assertIn("names the folder /opt/none", done.err)
        verdict = json.loads(record.read_text())
        self.assertEqual([file["name"] for file in verdict["files"] if file["compiled"]],
                         ["matmul.cu", "bias.cu", "binding.cpp"])
        self.assertIn("-DFACTOR=2", verdict["flags"])

    def test_builds_several_files(self):
        done = self.cupel("build", "op")
        self.assertEqual(done.status, 0, done)
        self.assertEqual([(image["kind"], image["file"]) for image in done.json["images"]],
                         [("kernel", "bias.cu"), ("kernel", "matmul.cu")])
        self.assertEqual(len(done.json["kernels"]), sum(len(image["kernels"]) for image in done.json["images"]))
        alone = self.cupel("build", "op/matmul.cu", "--sources", "op/bias.cu", "op/binding.cpp")
        self.assertEqual([image["file"] for image in alone.json["images"]], ["matmul.cu", "bias.cu"], alone)
        (self.op / "setup.py").write_text(SETUP)
        self.assertEqual(self.cupel("build", "op/setup.py").status, 0)
        (self.op / "bias.cu").write_text("__global__ void broken() { undefined(); }")
        done = self.cupel("build", "op")
        self.assertEqual((done.status, done.json["built"], done.codes), (1, False, {"compile_error"}), done)

    def test_other_commands_take_one_file(self):
        for command in (["review", "op", "--task", "mnist_linear", "--model", "command:true"], ["export", "op", "--task", "mnist_linear", "-o", "package"],
                        ["optimize", "mnist_linear", "--kernel", "op"]):
            done = self.cupel(*command)
            self.assertNotEqual(done.status, 0, done)
            self.assertIn("takes one file", done.out + done.err, command)


if __name__ == "__main__":
    unittest.main()
