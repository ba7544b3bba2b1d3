"""What the files of one object and model are called: no two share a name, and no name is longer
than file systems take.

The rules are those of `segtrt bench` (crates/vos/src/record/file_stem.rs): either side finds the
other's files by them.
"""

import hashlib

_OBJECT, _HASHED = "__obj", "~"
_DIGITS = 16  # of the hash
_MOST = 240  # bytes of a name
_KEPT = 80  # bytes that a cut clip's name keeps, and a cut object's


def file_stem(key):
    """`<video>__obj<object>__<tag>`; cut and with a hash where that could be another object's, or
    would be too long."""
    video, object_name, model = key["video"], key["object"], key["model"]
    plain = f"{video}{_OBJECT}{object_name}__{model}"
    odd = any(mark in name for name in (video, object_name) for mark in (_OBJECT, _HASHED))
    if len(plain.encode()) <= _MOST and not odd:
        return plain
    digest = hashlib.sha256(f"{video}\0{object_name}".encode()).hexdigest()[:_DIGITS]
    return f"{_cut(video)}{_OBJECT}{_cut(object_name)}{_HASHED}{digest}__{model}"


def _cut(name):
    return name.encode()[:_KEPT].decode(errors="ignore")
