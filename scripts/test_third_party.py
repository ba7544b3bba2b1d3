"""Tests of third_party.py."""

import unittest

import third_party


def package(name, source="registry"):
    return {
        "id": name, "name": name, "version": "1.0.0", "license": "MIT", "source": source, "manifest_path":
        "x"
    }


class ThirdParty(unittest.TestCase):
    def test_only_linked_crates_of_others_are_listed(self):
        def node(name, *deps):
            return {"id": name, "deps": [{"pkg": pkg, "dep_kinds": [{"kind": kind}]} for pkg, kind in deps]}

        metadata = {
            "packages":
            [package("segtrt", None),
             package("vos", None),
             package("a"),
             package("b"),
             package("cc")],
            "resolve": {
                "root":
                "segtrt",
                "nodes": [
                    node("segtrt", ("vos", None), ("cc", "build")),
                    node("vos", ("b", None), ("a", None)),
                    node("a"),
                    node("b", ("a", None)),
                    node("cc"),
                ],
            },
        }
        self.assertEqual([each["name"] for each in third_party.linked(metadata)], ["a", "b"])

    def test_equal_texts_stand_once_with_all_their_crates(self):
        texts = {"a": [("LICENSE", "the text")], "b": [("COPYING", "the text")], "c": []}
        written = third_party.collect([package(name) for name in "abc"], lambda each: texts[each["name"]])
        self.assertEqual(written.count("the text"), 1)
        self.assertIn("a 1.0.0, b 1.0.0", written)
        self.assertIn("c 1.0.0: MIT (no text in the crate)", written)


if __name__ == "__main__":
    unittest.main()
