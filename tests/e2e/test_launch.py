"""PTX with a launch description."""
import json
import unittest

from support import CupelTest, ci_share

TASK = """
import torch
from torch import nn

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.bias = nn.Parameter(torch.randn(24))
    def forward(self, x, by):
        return x * by + self.bias

def get_inputs():
    return [torch.randn(40, 24), 3.0]

def get_init_inputs():
    return []
"""

PTX = """
.version 7.8
.target sm_90
.address_size 64
.visible .entry scale(.param .u64 from, .param .u64 bias, .param .u64 to, .param .u32 n, .param .u32 width, .param .f32 by) {
  .reg .pred %p<2>;
  .reg .b32 %r<8>;
  .reg .b64 %rd<10>;
  .reg .f32 %f<6>;
  ld.param.u64 %rd1, [from];
  ld.param.u64 %rd2, [bias];
  ld.param.u64 %rd3, [to];
  ld.param.u32 %r1, [n];
  ld.param.u32 %r7, [width];
  ld.param.f32 %f1, [by];
  mov.u32 %r2, %ctaid.x;
  mov.u32 %r3, %ntid.x;
  mov.u32 %r4, %tid.x;
  mad.lo.s32 %r5, %r2, %r3, %r4;
  setp.ge.s32 %p1, %r5, %r1;
  @%p1 bra END;
  rem.s32 %r6, %r5, %r7;
  mul.wide.s32 %rd4, %r5, 4;
  mul.wide.s32 %rd5, %r6, 4;
  add.s64 %rd6, %rd1, %rd4;
  add.s64 %rd7, %rd2, %rd5;
  add.s64 %rd8, %rd3, %rd4;
  ld.global.f32 %f2, [%rd6];
  ld.global.f32 %f3, [%rd7];
  fma.rn.f32 %f4, %f2, %f1, %f3;
  st.global.f32 [%rd8], %f4;
END:
  ret;
}
"""

LAUNCH = {
    "ptx": "scale.ptx",
    "inputs": ["x", "by"],
    "tensors": {"y": {"shape": ["x.shape[0]", "x.shape[1]"], "dtype": "float32"}},
    "launches": [{"kernel": "scale", "grid": ["cdiv(x.numel(), 128)"], "block": [128],
                  "arguments": ["x", "bias", "y", {"int32": "x.numel()"}, {"int32": "state['bias'].shape[0]"},
                                {"float32": "by"}]}],
    "results": ["y"]}


@ci_share()
class LaunchTest(CupelTest):
    def judge(self, launch, ptx=PTX, *options):
        self.write("scale.ptx", ptx)
        self.write("launch.json", json.dumps(launch))
        self.write("problem.py", TASK)
        return self.cupel("check", "launch.json", "--task", "problem.py", "--settings", "single", "--trials", "2", "--device",
                          "emu", *options)

    def changed(self, **members):
        """The description with other members of its launch."""
        return dict(LAUNCH, launches=[dict(LAUNCH["launches"][0], **members)])

    def test_a_right_kernel_is_accepted_and_its_record_verified(self):
        record = self.folder / "record.json"
        done = self.judge(LAUNCH, PTX, "--json", record)
        self.assertEqual(done.status, 0, done)
        verdict = json.loads(record.read_text())
        self.assertEqual([file["name"] for file in verdict["files"]], ["launch.json", "scale.ptx"])
        self.assertEqual([r["kernel"] for r in verdict["resources"]], ["scale"])
        exact = verdict["settings"][0]["established"]["outputs"][0]
        self.assertEqual(exact["equal"], exact["elements"])
        again = self.cupel("verify", record)
        self.assertEqual(again.status, 0, again)
        self.write("scale.ptx", PTX.replace("fma.rn", "fma.rz"))
        self.assertNotEqual(self.cupel("verify", record).status, 0)

    def test_faults_are_found(self):
        done = self.judge(LAUNCH, PTX.replace("ld.global.f32 %f3, [%rd7]", "mov.f32 %f3, 0f00000000"))
        self.assertEqual((done.status, done.codes & {"wrong_result"}), (1, {"wrong_result"}), done)
        done = self.judge(LAUNCH, PTX.replace("@%p1 bra END;", ""))
        self.assertEqual((done.status, done.codes & {"out_of_bounds"}), (1, {"out_of_bounds"}), done)

    def test_what_a_description_lacks_is_named(self):
        cases = (
            (self.changed(arguments=["x"]), "launches[0].arguments: scale has 6 parameters"),
            (self.changed(kernel="none"), "no kernel is named none"),
            (self.changed(grid=["size"]), "launches[0].grid[0]: size"),
            (self.changed(arguments=["x", "bias", "z", *LAUNCH["launches"][0]["arguments"][3:]]), "no tensor is named z"),
            (dict(LAUNCH, inputs=["x"]), "inputs has 1 names"),
            (dict(LAUNCH, results=[]), "results is empty"))
        for launch, message in cases:
            done = self.judge(launch)
            self.assertEqual((done.status, done.codes), (1, {"wrong_arguments"}), done)
            self.assertIn(message, " ".join(done.out.split()), done)

    def test_files_must_be_there(self):
        done = self.judge(dict(LAUNCH, ptx="absent.ptx"))
        self.assertEqual(done.status, 2, done)
        self.assertIn("absent.ptx", done.err)
        done = self.judge(dict(LAUNCH, ptx="../scale.ptx"))
        self.assertEqual(done.status, 2, done)


if __name__ == "__main__":
    unittest.main()
