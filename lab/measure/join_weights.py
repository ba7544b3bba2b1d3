"""Writes a checkpoint with the image encoder of one network and all else of another.

python3 lab/measure/join_weights.py ENCODER REST OUT

All sizes of SAM 2.1 have the same memory attention and mask decoder. So the tracking that tiny
learnt serves the others, whose encoders imitate tiny's.
"""

import sys


def join(encoder, rest):
    """-> {name: tensor}; all of the second but its encoder must fit into the first."""
    found = {name: value for name, value in rest.items() if not name.startswith("image_encoder.")}
    for name, value in found.items():
        if name not in encoder:
            raise ValueError(f"{name} is in the second checkpoint only")
        if value.shape != encoder[name].shape:
            raise ValueError(f"{name} has the shapes {encoder[name].shape} and {value.shape}")
    return encoder | found


def main(arguments):
    if len(arguments) != 3:
        print(__doc__, file=sys.stderr)
        return 2
    from safetensors.torch import load_file, save_file

    encoder, rest, out = arguments
    try:
        save_file(join(load_file(encoder), load_file(rest)), out)
    except ValueError as why:
        print(f"error: {encoder} and {rest}: {why}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
