"""Tests of check_docs.py, and the check of the repository's own pages."""

import re
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

import check_docs as check


class OwnPages(unittest.TestCase):
    def test_the_repository_has_no_fault(self):
        ask = ["git", "rev-parse"]
        if not shutil.which("git") or subprocess.run(ask, cwd=check.ROOT, capture_output=True).returncode:
            self.skipTest("SKIPPED: the sources are not a git checkout")
        names = check.pages(check.ROOT)
        self.assertIn("README.md", names)
        self.assertEqual(list(check.faults(check.ROOT, names)), [])


class Columns(unittest.TestCase):
    def test_the_page_of_columns_names_all_of_them(self):
        folder = check.ROOT / "crates/vos/src/files"
        texts = [(folder / name).read_text(encoding="utf-8") for name in ("columns.rs", "summary_csv.rs")]
        stages = (check.ROOT / "crates/vos/src/stage.rs").read_text(encoding="utf-8")
        stages = re.findall(r'names!\("(\w+)"', stages)
        self.assertEqual(len(stages), 10)
        names = set(re.findall(r'\(\s*"(\w+)",\s*\|r\|', texts[0] + texts[1]))
        names |= {f"{stage}_ms" for stage in stages}
        # The encode stage has no percentiles in the table.
        names |= {f"{stage}_{p}_ms" for stage in stages if stage != "encode" for p in ("p50", "p99")}
        self.assertGreater(len(names), 50)
        page = (check.ROOT / "docs/reference/columns.md").read_text(encoding="utf-8")
        self.assertEqual({name for name in names if f"`{name}`" not in page}, set())


class Names(unittest.TestCase):
    def test_paths_and_names_of_the_sources(self):
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder)
            (root / "src").mkdir()
            (root / "src/lib.rs").write_text("pub struct Frame;\nfn read_all() {}\n", encoding="utf-8")
            good = "`src/lib.rs` `src/` `src` `Frame` `read_all` `--flag` `bench a` `word` `sam2_tiny`\n"
            (root / "page.md").write_text(good, encoding="utf-8")
            self.assertEqual(list(check.name_faults(root, "page.md")), [])
            (root / "page.md").write_text("`src/x.rs` `Lane`\n\n`read_none`\n", encoding="utf-8")
            found = list(check.name_faults(root, "page.md"))
            self.assertEqual([number for number, _ in found], [1, 1, 3])
            self.assertIn("`Lane` is declared in no Rust source", found[1][1])


class Links(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name)
        (self.root / "docs").mkdir()
        self.write("docs/other.md", "# One `two`, three\n\n## Same\n\n## Same\n\n```\n# no heading\n```\n")

    def write(self, name, text):
        (self.root / name).write_text(text, encoding="utf-8")

    def found(self, text):
        self.write("page.md", text)
        return [message for _, message in check.link_faults(self.root, "page.md")]

    def test_good_links(self):
        good = "[a](docs/other.md#one-two-three) [b](docs) [c](#here) ![d](docs/other.md#same-1 \"t\") [e](https://x.org/#y)\n\n# Here\n"
        self.assertEqual(self.found(good), [])

    def test_bad_links(self):
        for text, part in [
            ("[a](docs/none.md)", "leads to no file"),
            ("[a](docs/other.md#same-2)", "names no heading of docs/other.md"),
            ("[a](docs/other.md#no-heading)", "names no heading"),
            ("[a](#nowhere)", "names no heading of page.md"),
            ("[a](../x.md)", "leaves the repository"),
            ("[a](/docs/other.md)", "begins with a slash"),
            ("[a]: docs/none.md", "leads to no file"),
        ]:
            with self.subTest(text):
                messages = self.found(text)
                self.assertEqual(len(messages), 1, messages)
                self.assertIn(part, messages[0])

    def test_links_in_code_are_no_links(self):
        self.assertEqual(self.found("`[a](none.md)`\n\n```\n[a](none.md)\n```\n\n    [a](none.md)\n"), [])

    def test_a_link_in_an_item_of_a_list_counts(self):
        self.assertEqual(len(self.found("- one\n\n    [a](none.md)\n")), 1)


class Sentences(unittest.TestCase):
    def counts(self, text):
        return [message.split()[0] for _, message in check.long_sentences(text, most=4)]

    def test_long_sentences_are_found_one_by_one(self):
        self.assertEqual(self.counts("One two three. One two three four five. Yes.\n"), ["5"])
        self.assertEqual(self.counts("One two three\nfour five six.\n"), ["6"], "a sentence may go over "
                                                                                "lines")

    def test_items_and_paragraphs_end_a_sentence(self):
        self.assertEqual(self.counts("- one two three\n- four five six\n\nseven eight\n"), [])

    def test_tables_headings_and_code_do_not_count(self):
        text = "# One two three four five\n\n| one two three four five | x |\n\n```\none two three four five\n```\n\n    a b c d e f\n"
        self.assertEqual(self.counts(text), [])

    def test_inline_code_and_links_count_by_what_is_shown(self):
        self.assertEqual(self.counts("Run `a b c d e f` now.\n"), [])
        self.assertEqual(self.counts("See [one two](a_b.md#c) now.\n"), [])

    def test_an_abbreviation_ends_nothing(self):
        self.assertEqual(self.counts("A GPU, e.g. One two three.\n"), ["6"])
        self.assertEqual(self.counts("TensorRT 8.6.0 works.\n"), [])


class Records(unittest.TestCase):
    def test_only_pages_in_folders_of_results_are_records(self):
        self.assertTrue(check.is_record("docs/results/2026/comparison.md"))
        self.assertFalse(check.is_record("docs/results/2026.md"))
        self.assertFalse(check.is_record("docs/results.md"))


class Sizes(unittest.TestCase):
    def test_a_long_readme_is_a_fault(self):
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder)
            (root / "README.md").write_text("x\n" * 121, encoding="utf-8")
            found = [fault for fault in check.faults(root, ["README.md"], short=()) if "lines" in fault]
            self.assertEqual(len(found), 1)
            self.assertIn("121 lines, 120 at most", found[0])


if __name__ == "__main__":
    unittest.main()
