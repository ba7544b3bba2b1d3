"""Measures the original PyTorch predictors as `segtrt bench` measures graphs and engines.

`run.py` beside this folder is the command. Models and weights come from `onnx/segexport`, so that both sides
of a comparison are made by the same code.
"""

import sys
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
_EXPORTER = str(REPOSITORY / "onnx")
if _EXPORTER not in sys.path:
    sys.path.insert(0, _EXPORTER)

from segexport import __version__, shown  # noqa: E402, F401 (found by the line above)


class RunError(Exception):
    """Ends the run: what happened, what to do, and whether the command line was at fault (exit code 2)."""

    def __init__(self, what, advice, usage=False):
        super().__init__(what)
        self.what, self.advice, self.usage = what, advice, usage


class ObjectError(Exception):
    """Costs one object its row: the short code, the sentence and the status of `segtrt bench`."""

    # The predecessor skips these; all else is a failure.
    SKIPPED = ("empty_prompt_mask", "missing_prompt_mask", "no_annotations")

    def __init__(self, code, sentence):
        super().__init__(sentence)
        self.code = code

    @property
    def status(self):
        """`skipped` or `failed`."""
        return "skipped" if self.code in self.SKIPPED else "failed"
