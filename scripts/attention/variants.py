"""What bench.py builds, checks and times: variants of the kernels, shapes of the models, cases of the check."""

# name: (columns of Q and K, warps, row blocks, keys a tile, columns of V, ring slots, group, query column blocks in registers, blocks an SM)
VARIANTS = {
    "c_4x2x64_r4": (256, 4, 2, 64, 64, 4, 1, 0, 2),
    "c_4x2x64_r4_q3": (256, 4, 2, 64, 64, 4, 1, 3, 2),
    "c_4x2x64_r4_alone": (256, 4, 2, 64, 64, 4, 1, 3, 1),
    "c_4x2x128_r3": (256, 4, 2, 128, 64, 3, 1, 0, 2),
    "c_8x2x64_r10g5": (256, 8, 2, 64, 64, 10, 5, 0, 1),
    "c_8x2x64_r10g5_q3": (256, 8, 2, 64, 64, 10, 5, 3, 1),
    "c_8x2x64_r4": (256, 8, 2, 64, 64, 4, 1, 0, 1),
    "s_8x1x64_r4": (256, 8, 1, 64, 256, 4, 1, 0, 1),
    "s_8x1x64_r16g8": (256, 8, 1, 64, 256, 16, 8, 0, 1),
    "s_4x1x64_r4": (256, 4, 1, 64, 256, 4, 1, 0, 2),
    "h64_4x2x64_r4_q4": (64, 4, 2, 64, 64, 4, 1, 4, 2),
    "h64_4x2x64_r4g2_q4": (64, 4, 2, 64, 64, 4, 2, 4, 2),
    "h64_4x2x64_r4": (64, 4, 2, 64, 64, 4, 1, 0, 2),
    "h80_4x2x32_r4": (80, 4, 2, 32, 80, 4, 1, 0, 2),
    "h80_4x2x64_r4": (80, 4, 2, 64, 80, 4, 1, 0, 2),
    "h96_4x2x32_r4": (96, 4, 2, 32, 96, 4, 1, 0, 2),
    "h128_4x2x32_r4": (128, 4, 2, 32, 128, 4, 1, 0, 2),
    "h128_4x2x48_r2": (128, 4, 2, 48, 128, 2, 1, 0, 2),
    "h128_4x2x64_r4": (128, 4, 2, 64, 128, 4, 1, 0, 2),
    "h128_8x1x64_r4_q8": (128, 8, 1, 64, 128, 4, 1, 8, 1),
}
# name: (columns of Q and K, multiplying warpgroups, keys a tile, columns of V, ring slots, chunks under way, in turns)
HOPPER = {
    "h_2x128_s10_l1": (256, 2, 128, 64, 10, 1, "true"),
    "h_2x128_s10_l2": (256, 2, 128, 64, 10, 2, "true"),
    "h_2x128_s10_l2_free": (256, 2, 128, 64, 10, 2, "false"),
    "h_2x128_s10_l4": (256, 2, 128, 64, 10, 4, "true"),
    "h_2x128_s10_l4_free": (256, 2, 128, 64, 10, 4, "false"),
    "h_2x160_s8_l2": (256, 2, 160, 64, 8, 2, "true"),
    "h_2x160_s8_l3_free": (256, 2, 160, 64, 8, 3, "false"),
    "h_3x128_s8_l2": (256, 3, 128, 64, 8, 2, "true"),
    "hs_2x64_s16_l2": (256, 2, 64, 256, 16, 2, "true"),
    "hs_2x64_s16_l4_free": (256, 2, 64, 256, 16, 4, "false"),
    "hs_2x96_s12_l2": (256, 2, 96, 256, 12, 2, "true"),
    "hs_2x96_s12_l4": (256, 2, 96, 256, 12, 4, "true"),
    "hs_2x96_s12_l4_free": (256, 2, 96, 256, 12, 4, "false"),
    "h64_2x128_s7_l2": (64, 2, 128, 64, 7, 2, "true"),
    "h64_2x128_s7_l2_free": (64, 2, 128, 64, 7, 2, "false"),
    "h64_2x160_s7_l2": (64, 2, 160, 64, 7, 2, "true"),
    "h80_2x128_s12_l2": (80, 2, 128, 80, 12, 2, "true"),
    "h80_2x128_s12_l4": (80, 2, 128, 80, 12, 4, "true"),
    "h80_2x128_s12_l4_free": (80, 2, 128, 80, 12, 4, "false"),
    "h96_2x128_s12_l2": (96, 2, 128, 96, 12, 2, "true"),
    "h96_2x128_s12_l4": (96, 2, 128, 96, 12, 4, "true"),
    "h96_2x128_s12_l4_free": (96, 2, 128, 96, 12, 4, "false"),
    "h128_2x128_s12_l2": (128, 2, 128, 128, 12, 2, "true"),
    "h128_2x128_s12_l4": (128, 2, 128, 128, 12, 4, "true"),
    "h128_2x128_s12_l2_free": (128, 2, 128, 128, 12, 2, "false"),
    "h128_2x160_s8_l2": (128, 2, 160, 128, 8, 2, "true"),
}
# The instances of the PTX that is shipped (NVRTC, compute_80), compiled by the driver at load.
SHIPPED = {
    "attention.ptx": {
        "attention_cross": (256, 4, 2, 64, 64, 4, 1, 0, 2), "attention_self": (256, 8, 1, 64, 256, 4, 1, 0, 1),
        "attention_heads_64": (64, 4, 2, 64, 64, 4, 1, 4, 2), "attention_heads_80": (80, 4, 2, 32, 80, 4, 1, 0, 2),
        "attention_heads_96": (96, 4, 2, 32, 96, 4, 1, 0, 2), "attention_heads_128": (128, 4, 2, 32, 128, 4, 1, 0, 2),
    },
    "attention_hopper.ptx": {
        "attention_cross_hopper": (256, 2, 128, 64, 10, 2, "true"), "attention_self_hopper": (256, 2, 64, 256, 16, 4, "true"),
        "attention_heads_64_hopper": (64, 2, 128, 64, 7, 2, "true"), "attention_heads_80_hopper": (80, 2, 128, 80, 12, 4, "true"),
        "attention_heads_96_hopper": (96, 2, 128, 96, 12, 4, "true"), "attention_heads_128_hopper": (128, 2, 128, 128, 12, 2, "true"),
    },
}

# (columns of Q and K, of V) that there are kernels for
WIDTHS = ((256, 64), (256, 256), (64, 64), (80, 80), (96, 96), (128, 128))

# name: (columns of Q and K, of V, heads or objects, queries, keys, bias); the steady shapes of the models, both sizes
SHAPES = {
    "sam2 cross": (256, 64, 1, 4096, 28736, False),
    "sam2 cross bias": (256, 64, 1, 4096, 28736, True),
    "edgetam cross": (256, 64, 1, 4096, 3648, False),
    "sam2 cross 512": (256, 64, 1, 1024, 7232, False),
    "self": (256, 256, 1, 4096, 4096, False),
    "self 512": (256, 256, 1, 1024, 1024, False),
    "tiny heads": (128, 128, 4, 4096, 4096, False),
    "tiny heads 512": (128, 128, 4, 1024, 1024, False),
    "large heads of 80": (80, 80, 8, 4096, 4096, False),
    "tiny heads of 96": (96, 96, 4, 4096, 4096, False),
    "base+ heads": (64, 64, 8, 4096, 4096, False),
    "base+ heads 512": (64, 64, 8, 1024, 1024, False),
}

# (queries, keys, bias, scale of the logits, batch)
CASES = [
    (1024, 3648, None, 1, 1), (4096, 28736, None, 4, 1), (4096, 3648, "last", 1, 1), (1024, 4096, "first", 8, 1),
    (1024, 7237, "some", 4, 1), (1000, 3701, "random", 16, 2), (1024, 333, None, 60, 3), (33, 5, None, 1, 1), (4096, 4096, None, 1, 1),
]
