"""What bench.py builds, checks and times: variants of the kernels, shapes of the models, cases of the check."""

# name: (warps, row blocks, keys a tile, columns of V, ring slots, group, query column blocks in registers, blocks an SM)
VARIANTS = {
    "c_4x2x64_r4": (4, 2, 64, 64, 4, 1, 0, 2),
    "c_4x2x64_r4_q3": (4, 2, 64, 64, 4, 1, 3, 2),
    "c_4x2x64_r4_alone": (4, 2, 64, 64, 4, 1, 3, 1),
    "c_4x2x128_r3": (4, 2, 128, 64, 3, 1, 0, 2),
    "c_8x2x64_r10g5": (8, 2, 64, 64, 10, 5, 0, 1),
    "c_8x2x64_r10g5_q3": (8, 2, 64, 64, 10, 5, 3, 1),
    "c_8x2x64_r4": (8, 2, 64, 64, 4, 1, 0, 1),
    "s_8x1x64_r4": (8, 1, 64, 256, 4, 1, 0, 1),
    "s_8x1x64_r16g8": (8, 1, 64, 256, 16, 8, 0, 1),
    "s_4x1x64_r4": (4, 1, 64, 256, 4, 1, 0, 2),
}
# name: (multiplying warpgroups, keys a tile, columns of V, ring slots, chunks under way, in turns)
HOPPER = {
    "h_2x128_s10_l1": (2, 128, 64, 10, 1, "true"),
    "h_2x128_s10_l2": (2, 128, 64, 10, 2, "true"),
    "h_2x128_s10_l2_free": (2, 128, 64, 10, 2, "false"),
    "h_2x128_s10_l4": (2, 128, 64, 10, 4, "true"),
    "h_2x128_s10_l4_free": (2, 128, 64, 10, 4, "false"),
    "h_2x160_s8_l2": (2, 160, 64, 8, 2, "true"),
    "h_2x160_s8_l3_free": (2, 160, 64, 8, 3, "false"),
    "h_3x128_s8_l2": (3, 128, 64, 8, 2, "true"),
    "hs_2x64_s16_l2": (2, 64, 256, 16, 2, "true"),
    "hs_2x64_s16_l4_free": (2, 64, 256, 16, 4, "false"),
    "hs_2x96_s12_l2": (2, 96, 256, 12, 2, "true"),
    "hs_2x96_s12_l4": (2, 96, 256, 12, 4, "true"),
    "hs_2x96_s12_l4_free": (2, 96, 256, 12, 4, "false"),
}
# The instances of the PTX that is shipped (NVRTC, compute_80), compiled by the driver at load.
SHIPPED = {
    "attention.ptx": {"attention_cross": (4, 2, 64, 64, 4, 1, 0, 2), "attention_self": (8, 1, 64, 256, 4, 1, 0, 1)},
    "attention_hopper.ptx": {"attention_cross_hopper": (2, 128, 64, 10, 2, "true"), "attention_self_hopper": (2, 64, 256, 16, 4, "true")},
}

# name: (columns of V, queries, keys, bias); the three steady shapes of the two models, both sizes
SHAPES = {
    "sam2 cross": (64, 4096, 28736, False),
    "sam2 cross bias": (64, 4096, 28736, True),
    "edgetam cross": (64, 4096, 3648, False),
    "sam2 cross 512": (64, 1024, 7232, False),
    "self": (256, 4096, 4096, False),
    "self 512": (256, 1024, 1024, False),
}

# (queries, keys, bias, scale of the logits, batch)
CASES = [
    (1024, 3648, None, 1, 1), (4096, 28736, None, 4, 1), (4096, 3648, "last", 1, 1), (1024, 4096, "first", 8, 1),
    (1024, 7237, "some", 4, 1), (1000, 3701, "random", 16, 2), (1024, 333, None, 60, 3), (33, 5, None, 1, 1), (4096, 4096, None, 1, 1),
]
