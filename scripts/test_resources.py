"""Occupancy, and what ptxas says."""
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import resources


class Resources(unittest.TestCase):
    def test_registers_threads_blocks_and_shared_memory_limit_a_multiprocessor(self):
        # 218 registers, in units of 256 a warp: 7168 for each of four warps; 65536 hold two blocks.
        self.assertEqual(resources.blocks_of("80", 128, 218, 0), 2)
        # 96.5 KiB and 1 KiB of the driver's.
        self.assertEqual(resources.blocks_of("86", 128, 64, 98_816), 1)
        self.assertEqual(resources.blocks_of("87", 128, 64, 65_536), 2)
        self.assertEqual(resources.blocks_of("86", 256, 16, 0), 6)
        self.assertEqual(resources.blocks_of("80", 256, 16, 0), 8)
        self.assertEqual([resources.blocks_of(sm, 32, 8, 0) for sm in ("80", "86", "89")], [32, 16, 24])

    def test_a_block_that_no_multiprocessor_holds_is_a_problem_and_so_is_a_spill(self):
        kernel = resources.Kernel("module", "wide", 384, 106_496)
        used = resources.Used(200, 0, 0)
        self.assertIn("sm_86: 384 threads, 200 registers, 106496 bytes",
                      *resources.problems(kernel, used, "86"))
        self.assertEqual(list(resources.problems(kernel, resources.Used(128, 0, 0), "87")), [])
        self.assertIn("20 bytes", *resources.problems(kernel, resources.Used(128, 20, 0), "87"))

    def test_ptxas_is_understood(self):
        said = """ptxas info    : Compiling entry function 'one' for 'sm_87'
ptxas info    : Function properties for one
    0 bytes stack frame, 12 bytes spill stores, 8 bytes spill loads
ptxas info    : Used 40 registers, used 1 barriers, 24 bytes smem, 416 bytes cmem[0]
ptxas info    : Compiling entry function 'two' for 'sm_87'
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 8 registers, 368 bytes cmem[0]
"""
        self.assertEqual(resources.parsed(said), {"one": (40, 20, 24), "two": (8, 0, 0)})


if __name__ == "__main__":
    unittest.main()
