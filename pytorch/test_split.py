"""Tests of how a split is listed: frames by their numbers, as `segtrt bench` takes them."""

import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

try:
    from segtorch import ObjectError
    from segtorch.split import Split
except ImportError as error:
    raise unittest.SkipTest(f"SKIPPED: {error}") from error


class Frames(unittest.TestCase):
    """A clip's frames."""

    def listed(self, names):
        """The names in the order in which they are run; an ObjectError's code and sentence where they are refused."""
        with tempfile.TemporaryDirectory() as folder:
            frames, masks = (Path(folder) / part for part in ("JPEGImages_24fps/v", "Annotations_6fps/v/000"))
            for place, files in ((frames, names), (masks, ["00000.png"])):
                place.mkdir(parents=True)
                for name in files:
                    (place / name).touch()
            try:
                return [path.name for path in Split(folder, "sav_val").clip("v").frames]
            except ObjectError as error:
                return error.code, str(error)

    def test_a_frame_is_where_its_number_says(self):
        self.assertEqual(self.listed(f"{i}.jpg" for i in range(11)), [f"{i}.jpg" for i in range(11)])
        self.assertEqual(self.listed(["frame_000002.jpg", "frame_000001.jpg"]),
                         ["frame_000001.jpg", "frame_000002.jpg"])

    def test_a_frame_that_is_missing_or_there_twice_refuses_the_clip(self):
        for names, odd in (
            (["00000.jpg", "00002.jpg"], "00002.jpg comes where frame 1 belongs"),
            (["00001.jpg", "00002.jpg"], "00001.jpg comes where frame 0 belongs"),
            (["0.jpg", "00000.jpg"], "00000.jpg comes where frame 1 belongs"),
            (["00000.jpg", "cover.jpg"], "cover.jpg comes where frame 1 belongs"),
        ):
            code, sentence = self.listed(names)
            self.assertEqual(code, "frame_names")
            self.assertIn(odd, sentence)


if __name__ == "__main__":
    unittest.main()
