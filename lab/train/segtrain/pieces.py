"""Files in pieces that fit through a narrow transfer.

Numbers of 16 bits hardly shrink as they are; their upper bytes, sign and exponent, shrink by a
quarter when they lie together.
"""

import hashlib
import io
import json
import os
import zlib
from pathlib import Path

import torch

LARGEST = 15_500_000


def write(value, folder, name, largest=LARGEST):
    """`torch.save` into NAME.00, NAME.01, ... and a list of their hashes; earlier pieces stay until
    all new ones are written."""
    buffer = io.BytesIO()
    torch.save(value, buffer)
    write_bytes(squeezed(buffer.getvalue()), folder, name, largest)


def write_bytes(data, folder, name, largest=LARGEST):
    """The same for bytes."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    parts = [data[at : at + largest] for at in range(0, len(data), largest)]
    names = [f"{name}.{number:02d}" for number in range(len(parts))]
    for piece, part in zip(names, parts):
        (folder / f"{piece}.part").write_bytes(part)
    listed = {piece: hashlib.sha256(part).hexdigest() for piece, part in zip(names, parts)}
    (folder / f"{name}.json.part").write_text(json.dumps(listed))
    for piece in [*names, f"{name}.json"]:
        os.replace(folder / f"{piece}.part", folder / piece)


def read_bytes(folder, name):
    """Joins the pieces; ValueError where one is missing or of another time."""
    folder, data = Path(folder), bytearray()
    for piece, wanted in json.loads((folder / f"{name}.json").read_text()).items():
        part = (folder / piece).read_bytes()
        if hashlib.sha256(part).hexdigest() != wanted:
            raise ValueError(f"{folder / piece} is not the piece that {name}.json lists")
        data += part
    return bytes(data)


def read(folder, name, device="cpu"):
    """What `write` wrote."""
    return torch.load(io.BytesIO(unsqueezed(read_bytes(folder, name))),
                      map_location=device,
                      weights_only=True)


def squeezed(data):
    """Every first byte of two as it is, after every second one, compressed."""
    upper = zlib.compress(data[1::2], 6)
    return len(upper).to_bytes(8, "little") + upper + data[::2]


def unsqueezed(data):
    """The bytes that `squeezed` took."""
    at = 8 + int.from_bytes(data[:8], "little")
    upper, lower = zlib.decompress(data[8:at]), data[at:]
    whole = bytearray(len(upper) + len(lower))
    whole[1::2], whole[::2] = upper, lower
    return bytes(whole)
