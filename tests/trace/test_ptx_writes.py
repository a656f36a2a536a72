"""Which parameters of a kernel its PTX may write through."""
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "src/trace/py"))
from ptx_writes import written_parameters  # noqa: E402


def written(body, kernel="k", pointers=(0, 1)):
    ptx = ".visible .entry k(\n\t.param .u64 k_param_0,\n\t.param .u64 k_param_1\n)\n.reqntid 128\n{\n%s\n}\n" % body
    return written_parameters(ptx, kernel, set(pointers))


LOADS = "\tld.param.b64 \t%rd1, [k_param_0];\n\tld.param.b64 \t%rd2, [k_param_1];\n"


class Writes(unittest.TestCase):
    def test_follows_addresses_to_stores(self):
        self.assertEqual(written(LOADS + """
	mul.wide.s32 	%rd4, %r1, 4;
	.loc	1 14 17                         // answer.py:14:17
	add.s64 	%rd5, %rd2, %rd4;
	add.s64 	%rd6, %rd1, %rd4;
	// begin inline asm
	mov.u32 %r1, 0x0;
	@%p1 ld.global.v2.b32 { %r1, %r2 }, [ %rd6 + 0 ];
	// end inline asm
$L__tmp1:
	@!%p1 st.global.v2.b32 [ %rd5 + 0 ], { %r1, %r2 };
	ret;"""), {1})

    def test_follows_loops_in_any_order(self):
        self.assertEqual(written(LOADS + """
	mov.b64 	%rd3, %rd1;
$L__BB0_1:
	st.global.b32 	[%rd9], %r1;
	mov.b64 	%rd9, %rd8;
	selp.b64 	%rd8, %rd3, %rd3, %p1;
	bra 	$L__BB0_1;"""), {0})

    def test_atomics_and_calls_write(self):
        self.assertEqual(written(LOADS + "\tatom.global.add.f32 %r1, [%rd1], %r2;"), {0})
        self.assertEqual(written(LOADS + "\tred.global.add.f32 [%rd1], %r2;"), {0})
        self.assertEqual(written(LOADS + """	{ // callseq 0, 0
	.param .b64 param0;
	st.param.b64 	[param0], %rd2;
	call.uni (retval0), f, (param0);
	} // callseq 0"""), {1})

    def test_parameters_have_any_names(self):
        ptx = (".entry other(.param .u64 a) { ret; }\n.visible .entry\n  k (.param .u64 .ptr .align 1 from,\n.param .align 8 "
               ".b8 pair[16], .param .u64\n  to)\n{ ld.param.u64 %a, [from]; ld.param.u64 %b, [to];\n"
               "ld.param.u64 %c, [pair+8]; st.global.u32 [%b], 1; ret; }\n")
        self.assertEqual(written_parameters(ptx, "k", {0, 1, 2}), {2})
        self.assertEqual(written_parameters(ptx.replace("[%b]", "[%c]"), "k", {0, 1, 2}), {1})
        self.assertEqual(written_parameters(ptx, "missing", {0, 2}), {0, 2})

    def test_any_text_of_inline_assembly(self):
        stores = "st.global.b32 [%rd1], %r1;"
        self.assertEqual(written(LOADS + "\t{\n.reg .pred p;\n mov.b32 %r1, 0;\n}\n" + stores), {0})
        self.assertEqual(written(LOADS + "/* a comment; */ " + stores), {0})
        self.assertEqual(written(LOADS + "// }\n" + stores), {0})
        self.assertEqual(written(LOADS + "\t{ .reg .b64 t; mov.u64 t, %rd1; st.global.f32 [t], %f1; }"), {0})
        self.assertEqual(written("\tmov.u64 %rd1, k_param_0; cvta.param.u64 %rd2, %rd1; ld.u64 %rd3, [%rd2];\n"
                                 "\tst.global.b32 [%rd3], %r1;"), {0})
        self.assertEqual(written(LOADS + "ld.volatile.global.b64 %rd7, [%rd1]; st.global.b32 [%rd2], %r1;"), {1})

    def test_tensor_maps(self):
        maps = "\tmov.b64 \t%rd3, k_param_0;\n\tcvta.param.u64 \t%rd4, %rd3;\n"
        load = "\t@%p1 cp.async.bulk.tensor.1d.shared::cta.global.mbarrier::complete_tx::bytes [%r1], [%rd4, {%r2}], [%r3];"
        store = "\t@%p1 cp.async.bulk.tensor.1d.global.shared::cta.bulk_group [%rd4, {%r2}], [%r1];"
        self.assertEqual(written(maps + load), set())
        self.assertEqual(written(maps + store), {0})

    def test_an_address_that_is_stored_may_be_written(self):
        self.assertEqual(written(LOADS + "\tst.shared.b64 [%r1], %rd1;\n\tld.shared.b64 %rd7, [%r1];"), {0})

    def test_only_pointers_count(self):
        self.assertEqual(written(LOADS + "\tst.global.b64 [%rd1], %rd2;", pointers=(0,)), {0})
        self.assertEqual(written(LOADS + "\tst.global.b32 [%rd1], 3;\n"), {0})
        self.assertEqual(written(LOADS), set())


if __name__ == "__main__":
    unittest.main()
