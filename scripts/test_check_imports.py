"""Tests of check_imports.py, and the check of this workspace."""

import tempfile
import unittest
from pathlib import Path

import check_imports as check

WORKSPACE = """[package]
name = "top"
[dependencies]
low = { workspace = true }
[workspace.dependencies]
low = { package = "low-crate", path = "crates/low" }
"""


class ThisWorkspace(unittest.TestCase):
    def test_it_has_no_fault(self):
        self.assertEqual(list(check.faults(check.ROOT)), [])

    def test_imports_are_found(self):
        graph = check.arrows(check.ROOT / "crates/tensorrt/src")
        self.assertIn("owners", graph["builder"])
        self.assertGreater(sum(map(len, graph.values())), 40)


class Imports(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name)
        self.write("Cargo.toml", WORKSPACE)
        self.write("crates/low/Cargo.toml", '[package]\nname = "low-crate"\n')
        self.write("src/lib.rs", "mod a;\nmod b;\nmod c;\npub use b::{Thing, more::Other};\n")

    def write(self, name, text):
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")

    def circles(self, **files):
        for name in ("a", "b", "c"):
            self.write(f"src/{name}.rs", files.get(name, ""))
        return check.circles(check.arrows(self.root / "src"))

    def test_a_circle_is_found_however_it_is_written(self):
        ways = [
            "use crate::a::X;", "use crate::{a::{X, Y}, c};", "pub use super::a;", "use super::{c, a::X};",
            "fn f() { crate::a::x() }"
        ]
        for way in ways:
            with self.subTest(way):
                self.assertEqual(self.circles(a="use crate::b;", b=way), [["a", "b"]])
        self.assertEqual(self.circles(a="use crate::b;", b="use crate::c;", c="use crate::a;"),
                         [["a", "b", "c"]])

    def test_a_name_of_the_root_is_an_import_of_its_module(self):
        for name in ("Thing", "Other"):
            self.assertEqual(self.circles(a=f"use crate::{name};", b="use crate::a;"), [["a", "b"]])

    def test_comments_texts_and_unit_tests_are_no_imports(self):
        tests = "#[cfg(test)]\nmod tests {\n    use crate::a;\n}\n"
        for way in [
                "// crate::a", "/*! [`crate::a`] */", 'const X: &str = "crate::a";', tests, "use super::c;"
        ]:
            with self.subTest(way):
                self.assertEqual(self.circles(a="use crate::b;", b=way), [])

    def test_files_of_a_folder_are_one_module(self):
        self.write("src/a/inner.rs", "use super::super::b;\nuse crate::b;\n")
        self.write("src/a/tests.rs", "use crate::c;\n")
        self.assertEqual(self.circles(b="use crate::a;", c="use crate::a;"), [["a", "b"]])

    def test_cases_of_a_module_belong_to_the_self_test(self):
        self.write("src/a/cases.rs", "use crate::selftest;\n")
        self.write("src/selftest.rs", "use crate::a;\n")
        self.write("src/a.rs", "")
        graph = check.arrows(self.root / "src", check.CASES)
        self.assertEqual((graph, check.circles(graph)),
                         ({"selftest": {"a": self.root / "src/selftest.rs"}}, []))
        self.assertEqual(self.circles(), [["a", "selftest"]])
        self.write("src/a/inner.rs", "use crate::selftest;\n")
        graph = check.arrows(self.root / "src", check.CASES)
        self.assertEqual(check.circles(graph), [["a", "selftest"]])

    def test_a_dependency_against_the_direction_is_a_fault(self):
        for name in ("a", "b", "c"):
            self.write(f"src/{name}.rs", "")
        self.assertEqual(list(check.faults(self.root, (("low-crate",), ("top",)))), [])
        for layers in ((("top",), ("low-crate",)), (("low-crate", "top"),)):
            self.assertEqual(
                list(check.faults(self.root, layers)), ["top depends on low-crate, which is not below it"]
            )
        self.assertIn("not in LAYERS", list(check.faults(self.root, (("low-crate",),)))[0])


if __name__ == "__main__":
    unittest.main()
