// Wrong expressions for tests that a comparison can fail. FAKE_FAULT names the one to compute;
// without it every expression is the right one. One build of the emulation serves all faults.
#pragma once
#include <cstdio>
#include <cstdlib>
#include <cstring>

#define FAULTS(X) \
    X(attention_weighs_all_keys_alike) \
    X(attention_has_no_bias) \
    X(attention_reads_before_it_waits) \
    X(windows_weigh_all_keys_alike) \
    X(keys_of_one_time) \
    X(decoder_skips_the_last_token_of_a_tile) \
    X(decoder_has_no_value_bias) \
    X(decoder_squashes_the_wrong_ious) \
    X(decoder_takes_the_last_of_equal_ious) \
    X(decoder_takes_the_pointer_of_score_3) \
    X(decoder_fills_with_a_mask) \
    X(decoder_has_the_wrong_gelu) \
    X(hopper_fuse_norm_has_no_bias) \
    X(hopper_fuse_is_shifted_by_a_column) \
    X(hopper_fuse_has_16_channels_of_64) \
    X(memory_of_a_soft_mask) \
    X(memory_is_shifted_by_a_column) \
    X(memory_of_score_0_is_present) \
    X(memory_forgets_the_splits_scale) \
    X(memory_windows_in_the_wrong_order) \
    X(memory_mlp_has_the_wrong_sign) \
    X(norm_has_no_bias) \
    X(gelu_matmul_has_no_bias) \
    X(gelu_matmul_gives_the_first_half) \
    X(attention_norm_has_no_bias) \
    X(attention_turns_rows_as_columns) \
    X(attention_forgets_positions) \
    X(hopper_norm_has_no_bias) X(hopper_turns_rows_as_columns) X(hopper_forgets_positions) \
    X(query_forgets_a_parts_scale) X(query_forgets_later_parts) X(query_swaps_no_halves) \
    X(query_keeps_tokens_from_its_peer) \
    X(tail_forgets_a_parts_scale) X(tail_forgets_later_parts) X(tail_forgets_the_residual) \
    X(attention_mlp_has_no_relu) \
    X(attention_forgets_the_residual) \
    X(hopper_mlp_has_no_relu) \
    X(hopper_mlp_forgets_the_residual) \
    X(hopper_mlp_of_score_0_is_present) \
    X(repvit_is_shifted_by_a_column) \
    X(repvit_block_has_no_gate) X(repvit_block_forgets_a_peer) \
    X(repvit_sums_edges_as_inner) \
    X(repvit_next_sums_edges_as_inner) \
    X(repvit_stride_begins_a_row_late) \
    X(repvit_forgets_a_part_of_the_depth) \
    X(repvit_stem_has_no_border) \
    X(repvit_stem_sums_edges_as_inner) \
    X(hiera_stem_has_no_position) \
    X(hiera_stem_begins_a_row_early) \
    X(hiera_block_weighs_all_keys_alike) \
    X(hiera_block_norm_has_no_bias) \
    X(hiera_block_has_the_wrong_gelu) \
    X(hiera_transition_pools_three_tokens) \
    X(hiera_transition_forgets_the_values_bias) \
    X(hiera_block_does_not_transpose_values) \
    X(neck_upsamples_another_line) \
    X(neck_reads_the_first_span_alone) \
    X(neck_adds_up_one_part_alone) \
    X(repvit_reads_before_it_waits) \
    X(repvit_waits_with_some_threads)

// The expression `right`, or `wrong` where FAKE_FAULT is `name`.
#define FAULT(name, right, wrong) (faults::name ? (wrong) : (right))

namespace faults {
inline bool asked_for(const char* name) {
    const char* asked = std::getenv("FAKE_FAULT");
    return asked && !std::strcmp(asked, name);
}

#define X(name) const bool name = asked_for(#name);
FAULTS(X)
#undef X

// A misspelt fault must not leave the right kernels in place of the wrong ones.
const bool known = [] {
#define X(name) || name
    if (std::getenv("FAKE_FAULT") && !(false FAULTS(X))) {
#undef X
        std::fprintf(stderr, "FAKE_FAULT names no fault of faults.h\n");
        std::abort();
    }
    return true;
}();
}  // namespace faults
