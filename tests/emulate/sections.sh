#!/bin/sh
# sections.sh FOLDER: the sections of cuda/*.cu and *.cuh ("// ---- NAME ... ----"), each as a file
# FOLDER/FILE.NAME. Who runs a kernel on the CPU includes those it needs: all but the primitives,
# which machine.h has. Entry points ("instances") come as the stand-in driver calls them: shared
# memory is what the machine has, and a tensor map is the word that the driver keeps of it.
set -e
folder=$1 && mkdir -p "$folder"
cuda=$(dirname "$0")/../../cuda
for file in "$cuda"/*.cu "$cuda"/*.cuh; do
    awk -v to="$folder/${file##*/}." '
        /^\/\/ ---- .* ----$/ { name = $3; sub(":", "", name) }
        name { print > (to name) }
    ' "$file"
done
for file in "$folder"/*.instances; do
    shared='\(extern \)\{0,1\}__shared__ __align__([0-9]*) unsigned char \([a-z]*\)\[[^]]*\];'
    sed -e "s/$shared/const BlockMemory \\2{};/" \
        -e 's/const __grid_constant__ TensorMap/const MapWord/g' "$file" > "$folder/changed"
    mv "$folder/changed" "$file"
done
# wrong SECTION FAULT RIGHT WRONG: an expression is WRONG where FAKE_FAULT asks for that (faults.h),
# so that tests can see a comparison fail. Who changes the expression in a kernel does so here, too.
wrong() {
    awk -v name="$2" -v right="$3" -v wrong="$4" '
        {
            while (at = index($0, right)) {
                found++
                printf "%sFAULT(%s, %s, %s)", substr($0, 1, at - 1), name, right, wrong
                $0 = substr($0, at + length(right))
            }
            print
        }
        END { if (!found) { print "sections.sh: '"$1"' does not have " right > "/dev/stderr"; exit 1 } }
    ' "$folder/$1" > "$folder/changed"
    mv "$folder/changed" "$folder/$1"
}
wrong memory_key_proj.cu.attention keys_of_one_time 'p.time_bias[of]' 4.0f
wrong attention.cu.attention attention_has_no_bias p.bias nullptr
wrong attention_cluster_hopper.cu.attention attention_has_no_bias 'any_lane(other)' false
wrong attention.cu.attention attention_reads_before_it_waits 'dependent_wait()' '(void)0'
landed='copies_wait<STAGES / GROUP - 1>()'
wrong attention.cu.attention attention_reads_before_it_waits "$landed" "($landed, dependent_wait())"
wrong attention.cu.attention attention_weighs_all_keys_alike \
    'weights_of(scores[r][j], h, row_max[r][h], row_sum[r][h])' 'alike(row_sum[r][h])'
wrong window_attention.cu.attention windows_weigh_all_keys_alike \
    'weights_of(scores[t][j], h, row_max[t][h], row_sum[t][h])' 'alike(row_sum[t][h])'
wrong attention_hopper.cuh.attention attention_weighs_all_keys_alike \
    'fmaf(scores[j], LOG2E, -row_max[h])' 0.0f
wrong window_attention_hopper.cu.attention windows_weigh_all_keys_alike \
    'fmaf(scores[j], LOG2E, -row_max[h])' 0.0f
wrong gemm_layernorm_hopper.cu.gemm norm_has_no_bias 'norm_bias[column]' 0.0f
wrong gemm_gelu_hopper.cu.gemm gelu_matmul_has_no_bias 'to_float2(word)' 'to_float2(0)'
wrong gemm_gelu_hopper.cu.gemm gelu_matmul_gives_the_first_half 'sums[1] + i * 4' 'sums[0] + i * 4'
last='power_of_two(fmaf(scores[i + n][2 * a + 1], LOG2E, behind[a]))'
wrong mask_decoder_image.cuh.attention decoder_skips_the_last_token_of_a_tile \
    "$last" "(i + n == EIGHTS - 1 && of.part == 3 ? 0.0f : $last)"
wrong mask_decoder_combine.cuh.combine decoder_has_no_value_bias \
    '((const float4*)(p.value_bias + head * DEPTH))[part]' '(float4{0, 0, 0, 0})'
wrong mask_decoder_heads.cu.heads decoder_squashes_the_wrong_ious p.probable '!p.probable'
wrong mask_decoder_heads.cu.heads decoder_takes_the_last_of_equal_ious 'other > iou' 'other >= iou'
wrong mask_decoder_heads.cu.heads decoder_takes_the_pointer_of_score_3 'score > 0.0f' 'score > 3.0f'
for i in 0 1; do
    wrong mask_decoder_upscale.cu.attention decoder_fills_with_a_mask \
        "either(present, NO_OBJECT, own[$i])" "either(present, -NO_OBJECT, own[$i])"
done
second='second[j][of * 2 + i]'
wrong mask_decoder_upscale.cu.attention decoder_has_the_wrong_gelu "gelu($second)" "$second - gelu($second)"
wrong memory_encoder_mask.cuh.convolutions memory_of_a_soft_mask 'binary > 0.5f' 'binary > 1.5f'
wrong memory_encoder_convnext.cuh.blocks memory_is_shifted_by_a_column \
    'left + warp - REACH' 'left + warp - REACH + 1'
for i in '' ' + 1'; do
    wrong memory_encoder_convnext.cu.blocks memory_mlp_has_the_wrong_sign \
        "gelu(hidden[m][i * 2$i])" "-gelu(hidden[m][i * 2$i])"
done
for i in '0] + bias[i >> 1].x' '1] + bias[i >> 1].y'; do
    wrong memory_encoder_convnext_128.cu.blocks memory_mlp_has_the_wrong_sign "gelu(pair[$i)" "-gelu(pair[$i)"
done
wrong memory_encoder_convnext_128.cu.blocks memory_of_score_0_is_present '*p.score <= 0.0f' '*p.score < 0.0f'
wrong memory_encoder_convnext.cu.blocks memory_of_score_0_is_present '*p.score <= 0.0f' '*p.score < 0.0f'
wrong perceiver_1d.cu.attention memory_forgets_the_splits_scale 'scales[i] * each[i].y' 'each[i].y'
wrong perceiver_2d.cuh.attention memory_windows_in_the_wrong_order \
    'latent / SIDE * side' 'latent % SIDE * side'
wrong repvit_fused.cuh.blocks repvit_is_shifted_by_a_column \
    'left * STRIDE + column - 1' '(left * STRIDE + column)'
wrong repvit_fused.cuh.blocks repvit_block_has_no_gate p.gate.sums nullptr
wrong repvit_fused.cuh.blocks repvit_reads_before_it_waits 'dependent_wait()' '(void)0'
wrong repvit_fused.cuh.blocks repvit_reads_before_it_waits \
    'fetch_pixels(p)' '(fetch_pixels(p), dependent_wait())'
wrong repvit_block_hopper.cu.blocks repvit_block_forgets_a_peer \
    'store_peer_halves(to + peers[i], halves)' \
    '(i + 2 < BLOCKS ? store_peer_halves(to + peers[i], halves) : (void)0)'
wrong repvit.cu.convolution repvit_waits_with_some_threads \
    'dependent_wait()' '(channel < p.channels ? dependent_wait() : (void)0)'
wrong repvit_fused.cuh.blocks repvit_next_sums_edges_as_inner 'edge_of(y, x, side)' 4
wrong repvit.cu.sums repvit_sums_edges_as_inner 'edge_of(y, x, p.grid)' 4
wrong repvit.cu.convolution repvit_stride_begins_a_row_late \
    'row * STRIDE + dy - 1' '(row * STRIDE + dy - 1 + (STRIDE == 2))'
wrong repvit_stem.cu.stem repvit_stem_has_no_border 'inside[i] ? word : 0' word
wrong repvit_stem.cu.stem repvit_stem_sums_edges_as_inner 'edge_of(y, x, grid)' 4
wrong hiera_stem.cu.stem hiera_stem_has_no_position \
    'load_halves(p.position + tokens[m][i] * p.columns + column)' 'make_uint2(0, 0)'
wrong hiera_stem.cu.stem hiera_stem_begins_a_row_early 'top * STRIDE - 3' '(top * STRIDE - 4)'
wrong hiera_block.cuh.tokens hiera_block_weighs_all_keys_alike 'weights_of(scores[j], i, top, sum)' \
    'alike(sum)'
for i in '' ' + 1'; do
    wrong hiera_block.cu.block hiera_block_has_the_wrong_gelu \
        "gelu(hidden[m][n][i * 2$i])" "-gelu(hidden[m][n][i * 2$i])"
done
wrong hiera_block_windows.cu.block hiera_block_has_the_wrong_gelu "gelu(hidden[n][i])" "-gelu(hidden[n][i])"
wrong hiera_block_windows.cu.block hiera_block_does_not_transpose_values \
    "transposed(values[n * 2])" "values[n * 2]"
norm='fmaf(fmaf(x(j, n / 2)[i * 2 + n % 2], scale[i], mean[i]), times'
wrong hiera_block.cuh.tokens hiera_block_norm_has_no_bias "$norm, plus)" "$norm, 0.0f)"
wrong hiera_transition.cu.transition hiera_transition_pools_three_tokens 'sums[3][n][at]' 'sums[2][n][at]'
for of in '] x' ' + 1] y'; do
    sum="sums[i * 2${of% ?}, share[i]"
    wrong hiera_transition.cu.transition hiera_transition_forgets_the_values_bias \
        "fmaf($sum, bias.${of##* })" "fmaf($sum, 0.0f)"
done
wrong neck.cu.neck neck_upsamples_another_line 'above[i / 8][0][line / 2]' 'above[i / 8][0][line % 2]'
wrong neck.cu.neck neck_reads_the_first_span_alone 'step / SPAN_STEPS<T>()' 0
wrong neck.cu.neck neck_adds_up_one_part_alone 'part * (SQUARE_ACROSS * OWN * SUMS)' 0
wrong repvit.cu.gemm repvit_forgets_a_part_of_the_depth 'PARTS > 1' false
wrong memory_attention.cuh.norm attention_norm_has_no_bias 'bias[i].x' 0.0f
wrong memory_attention.cu.projection attention_turns_rows_as_columns 'column < TURNING' 'column >= TURNING'
wrong memory_attention.cu.projection attention_forgets_positions \
    'load_halves(p.added + from)' 'make_uint2(0, 0)'
wrong memory_attention_project_hopper.cu.projection hopper_norm_has_no_bias 'bias[j * 2]' 0.0f
wrong memory_attention_project_hopper.cu.projection hopper_turns_rows_as_columns \
    '(from + group) % UNITS_OF_SECTION == 0' '(from + group) % UNITS_OF_SECTION != 0'
wrong memory_attention_project_hopper.cu.projection hopper_forgets_positions 'positions[i].x' 0
wrong memory_encoder_fuse_hopper.cu.fuse hopper_fuse_norm_has_no_bias 'bias[j + e].x' 0.0f
wrong memory_encoder_fuse_hopper.cu.fuse hopper_fuse_is_shifted_by_a_column 'dx == 0 ? x - 1 : x' x
wrong memory_encoder_fuse_hopper.cu.fuse hopper_fuse_has_16_channels_of_64 'a + i * 128' a
wrong memory_attention_project_hopper.cuh.parts query_forgets_a_parts_scale \
    'power_of_two(stat[i][t].x - top[t])' 1.0f
wrong memory_attention_project_hopper.cuh.parts query_forgets_later_parts 'from >= parts' true
wrong memory_attention_project_hopper.cuh.parts query_swaps_no_halves 'odd ? came : words[0][i]' 'words[0][i]'
wrong memory_attention_project_hopper.cu.projection query_keeps_tokens_from_its_peer \
    'store_peer_unit(place + apart, words)' '(void)0'
wrong memory_attention_tail.cu.tail tail_forgets_a_parts_scale 'power_of_two(stat[i].x - top)' 1.0f
wrong memory_attention_tail.cu.tail tail_forgets_later_parts 'from >= p.parts' true
wrong memory_attention_tail.cu.tail tail_forgets_the_residual \
    'load_halves(p.residual + within(p, first + n * 8 + (lane >> 2)) * COLUMNS + own)' 'make_uint2(0, 0)'
wrong memory_attention_mlp.cu.gemm attention_mlp_has_no_relu 'fmaxf(x, 0.0f)' x
wrong memory_attention_mlp.cu.gemm attention_forgets_the_residual \
    'load_halves(p.residual + token * p.columns + own + t * TILE)' 'make_uint2(0, 0)'
wrong mlp_hopper.cu.mlp hopper_mlp_has_no_relu 'fmaxf(x, 0.0f)' x
wrong mlp_hopper.cu.mlp hopper_mlp_forgets_the_residual 'pass.last ? 0 : words[j]' 0
wrong mlp_hopper.cu.mlp hopper_mlp_of_score_0_is_present '*p.score <= 0.0f' '*p.score < 0.0f'
