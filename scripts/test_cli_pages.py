"""Tests of cli_pages.py with a stand-in for the program."""

import contextlib
import io
import os
import tempfile
import unittest
from pathlib import Path
from unittest import mock

import cli_pages

PROGRAM = """#!/bin/sh
case "$*" in
--help) printf 'Measures  \\n\\nUsage: segtrt <COMMAND>\\n\\nCommands:\\n  bench   Run models\\n            over clips\\n  store   Keep a run\\n  help    Print this\\n\\nOptions:\\n  -h  Print help\\n' ;;
"bench --help") printf 'Run models\\nover clips\\n\\nUsage: segtrt bench\\n\\n  columns %s, secret "%s"\\n' "$COLUMNS" "$SEGTRT_ORT" ;;
"store --help") printf 'Keep a run\\n\\nCommands:\\n  save  Save it\\n' ;;
"store save --help") printf 'Save it\\n' ;;
*) echo "what is $*?" >&2; exit 2 ;;
esac
"""


class Pages(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.binary = self.folder / "segtrt"
        self.binary.write_text(PROGRAM, encoding="utf-8")
        self.binary.chmod(0o755)

    def test_each_command_has_a_page_with_its_own_commands(self):
        with mock.patch.dict(os.environ, {"SEGTRT_ORT": "mine"}):
            pages = dict(cli_pages.pages(self.binary))
        self.assertEqual(sorted(pages), ["README.md", "bench.md", "store.md"])
        self.assertIn('# segtrt bench\n\n```text\nRun models\nover clips\n', pages["bench.md"])
        self.assertIn('columns 100, secret ""\n```\n', pages["bench.md"])
        self.assertIn("# segtrt store\n", pages["store.md"])
        self.assertIn("## segtrt store save\n\n```text\nSave it\n```\n", pages["store.md"])
        self.assertIn("| [segtrt bench](bench.md) | Run models over clips |", pages["README.md"])
        self.assertIn("```text\nMeasures\n\nUsage", pages["README.md"])

    def test_differences_are_named_and_written_away(self):
        pages = dict(cli_pages.pages(self.binary))
        there = self.folder / "cli"
        self.assertEqual(cli_pages.differences(there, pages), ["README.md", "bench.md", "store.md"])
        cli_pages.write(there, pages)
        self.assertEqual(cli_pages.differences(there, pages), [])
        (there / "old.md").write_text("", encoding="utf-8")
        (there / "bench.md").write_text("", encoding="utf-8")
        self.assertEqual(cli_pages.differences(there, pages), ["bench.md", "old.md"])
        cli_pages.write(there, pages)
        self.assertEqual(cli_pages.differences(there, pages), [])

    def test_a_check_says_what_to_type(self):
        said = io.StringIO()
        with (
            mock.patch.dict(os.environ, {"SEGTRT_BIN": str(self.binary)}),
            mock.patch.object(cli_pages, "FOLDER", self.folder / "none"),
            mock.patch("sys.argv", ["cli_pages.py", "--check"]),
            contextlib.redirect_stderr(said),
        ):
            self.assertEqual(cli_pages.main(), 1)
        self.assertIn("python3 scripts/cli_pages.py", said.getvalue())


if __name__ == "__main__":
    unittest.main()
