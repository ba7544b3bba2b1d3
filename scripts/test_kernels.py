"""Registers keep apart when they get short names."""
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import kernels

PTX = """.visible .entry first(
.param .u32 first_param_0
)
{
.reg .pred p<3>;
.reg .b32 r<150>;
setp.ne.u32 p1,r2,0;
{
.reg .pred p1;
.reg .pred p2;
setp.ne.u32 p1,r3,0;
bar.red.or.pred p2,0,p1;
selp.u32 r120,1,0,p2;
}
@p1 bra $L__BB0_1;
ret;
}
"""


class ShortNumbers(unittest.TestCase):
    def test_a_block_does_not_write_the_kernels_registers(self):
        lines = kernels.short_numbers(PTX).splitlines()
        self.assertIn("setp.ne.u32 b1,c2,0;", lines)
        self.assertIn(".reg .pred p1_;", lines)
        self.assertIn("setp.ne.u32 p1_,c3,0;", lines)
        self.assertIn("bar.red.or.pred p2_,0,p1_;", lines)
        self.assertIn("selp.u32 d20,1,0,p2_;", lines)
        self.assertIn("@b1 bra $L__BB0_1;", lines)

    def test_a_declaration_that_no_rule_knows_is_refused(self):
        # A block that does not begin with its declarations.
        nested = PTX.replace("{\n.reg .pred p1;", "{\nmov.u32 r4,0;\n.reg .pred p1;")
        with self.assertRaisesRegex(kernels.Problem, "declares .reg .pred p1;"):
            kernels.short_numbers(nested)


if __name__ == "__main__":
    unittest.main()
