"""Tests of book.py, and the check that every page is a chapter."""

import tempfile
import unittest
from pathlib import Path

import book
import check_docs


class OwnBook(unittest.TestCase):
    def test_every_page_is_a_chapter_and_every_link_stays_in_the_book(self):
        with tempfile.TemporaryDirectory() as folder:
            self.assertEqual(list(book.copy(check_docs.ROOT, Path(folder) / "book")), [])
        listed = set(book.chapters(check_docs.ROOT))
        pages = {
            path.relative_to(check_docs.ROOT).as_posix()
            for path in (check_docs.ROOT / "docs").rglob("*.md")
        }
        missing = {page for page in pages - {book.SUMMARY} if not check_docs.is_record(page)} - listed
        self.assertEqual(missing, set(), f"add these pages to {book.SUMMARY}")


class Copies(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name)
        self.write("docs/book.toml", "[book]\n")
        self.write("docs/SUMMARY.md", "# Summary\n\n[Start](../README.md)\n\n- [A](a/b.md)\n")
        self.write("docs/a/b.md", "# B\n")
        self.write("data.toml", "")

    def write(self, name, text):
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")

    def copy(self):
        return list(book.copy(self.root, self.root / "target/book"))

    def test_chapters_and_linked_files_keep_their_paths(self):
        self.write("README.md", "[b](docs/a/b.md#b) [data](data.toml) [web](https://x.org/y.md)\n")
        self.assertEqual(self.copy(), [])
        src = self.root / "target/book/src"
        found = sorted(path.relative_to(src).as_posix() for path in src.rglob("*") if path.is_file())
        self.assertEqual(found, ["README.md", "SUMMARY.md", "data.toml", "docs/a/b.md"])
        self.assertEqual((src / "SUMMARY.md").read_text(), "# Summary\n\n[Start](README.md)\n\n- "
                                                           "[A](docs/a/b.md)\n")

    def test_the_list_of_commands_brings_their_pages(self):
        self.write("README.md", "")
        self.write("docs/SUMMARY.md", "[Start](../README.md)\n\n- [Commands](reference/cli/README.md)\n- "
                                      "[A](a/b.md)\n")
        for name in ("README", "bench", "all"):
            self.write(f"docs/reference/cli/{name}.md", "")
        self.assertEqual(self.copy(), [])
        lines = (self.root / "target/book/src/SUMMARY.md").read_text().splitlines()
        self.assertEqual(lines[3], "  - [segtrt all](docs/reference/cli/all.md)")
        self.assertEqual(lines[5], "- [A](docs/a/b.md)")

    def test_a_page_outside_the_book_and_a_folder_are_named(self):
        self.write("docs/c.md", "# C\n")
        self.write("README.md", "[c](docs/c.md) [folder](docs)\n")
        first, second = self.copy()
        self.assertIn("README.md links to docs/c.md, which is no chapter", first)
        self.assertIn("README.md links to the folder docs", second)


if __name__ == "__main__":
    unittest.main()
