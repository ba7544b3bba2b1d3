/*!
The image's side of the mask decoder's cross attentions, for any GPU from sm 80 on: a few tokens j
attend to all image tokens n ("read"), and image tokens attend to those few ("write"). 8 tokens, 8
heads h, 256 columns, heads 16 wide; f16 in and out, sums in f32.

Matmuls: scores F[64, 256] (x + pe)[T, 256]^T, values Wv (or V). T: image tokens; sm 80 on.

| kernel                           | M, N, K of the scores | tile of T | threads | ahead | shared bytes |
|----------------------------------|-----------------------|-----------|---------|-------|--------------|
| mask_decoder_token_to_image_attn | 64, T, 256            | 64        | 128     | 2     | 65 536       |
| mask_decoder_image_to_token_attn | T, 64, 256            | 64        | 128     | 2     | 98 304       |

  - read: score[8h+j, n] = F[8h+j] . (x + pe)[n]; of each tile of 64 image tokens the largest score
    m of a row, the sum of exp(score - m), and the sum of exp(score - m) (Wv x)[n], of the head's 16
    columns. mask_decoder_combine_splits merges the tiles.
  - write: score[n, 8h+j] = K[8h+j] . (x + pe)[n] + s[8h+j], p = softmax over j, y[n] = norm(x[n] +
    V p[n] + bias); then a read of y.

A block has four warps and one tile; at 1024 pixels 64 blocks, so that what counts is how long one
takes. Rows' columns are multiplied in the order in which a lane finds eight of them side by side,
the same on both sides: every fragment of a factor comes as 16 bytes of a row, from shared memory or
straight from the weights' memory.

  - read: a warp has two heads and all 64 tokens: rows of F and Wv are the left factor, which no
    other warp needs and which pass shared memory by, two steps of 32 columns ahead; x + pe and x in
    shared memory are the right one. The values' sums, rounded, are then the left factor of the
    second product and the weights its right one, as they lie.
  - write: a warp has 16 tokens: x + pe is the left factor and comes straight from memory, K in
    shared memory the right one. Its rows are taken in an order in which a lane has all of a head's
    scores: softmax needs no other lane. The norm needs a quad's. x is added by the tensor cores
    too, exactly.

Shared memory holds x and x + pe, 64 KB; of mask_decoder_image_to_token_attn first x, K and V, then
y in the place of x and y + pe in the place of V, 96 KB. Tokens past the last are the last one,
without weight.

Tiles of 32 tokens would use all of an H200 at 1024 pixels. But every block reads all weights from
the L2 cache: 160 of the 224 KB that a block of mask_decoder_image_to_token_attn reads, so that as
many bytes would come to a multiprocessor as now while twice as many ask for them, and where there
are fewer multiprocessors than blocks the weights would come twice. Nobody has measured them; as it
is, mask_decoder_image_to_token_attn takes 12.0 us with 64 tiles and 11.0 with one on an H200: what
a block does by itself bounds it.

Grid: `x` = tiles; one-dimensional.
*/
#include "ptx.cuh"
#include "arithmetic.cuh"
#include "attention.cuh"
#include "mask_decoder_image.cuh"

// ---- attention ----

constexpr u32 NORM_WEIGHT = SECOND, NORM_BIAS = SECOND + IMAGE_WIDTH * 4;
constexpr float NORM_EPSILON = 1e-5f;

/// What a launch is given for its write.
struct WriteProblem {
    const f16 *x, *pe;           // [tokens, 256]
    const f16* keys;             // K [64, 256]
    const float* key_bias;       // s [64]
    const f16* values;           // V [256, 64]
    const float *bias, *norm_weight, *norm_bias;  // [256]
    f16* y;                      // [tokens, 256]; may be x
    int tokens;
};

/// The tile's attention to the tokens. A warp has 16 image tokens, a lane two rows of a fragment.
struct ImageWrite {
    static constexpr int EIGHTS = IMAGE_WIDTH / 8;

    u32 shares[2][2][4];      // of heads 4 half + part; of both tokens: two weights a word
    float result[EIGHTS][4];  // columns 8 i + 2 part and the next of the first token, then of the second

    /// Starts the copies of K and V, each a group.
    __device__ __forceinline__ static void fetch(const WriteProblem& p, const ImageLane& of) {
#pragma unroll 4
        for (int i = 0; i < TOKENS * TOKENS; i += 4) {
            int row = i + of.warp;
            copy16(of.shared + SECOND + unit_at<ROW>(row, of.lane), p.keys + row * IMAGE_WIDTH + of.lane * 8,
                   true);
        }
        copies_commit();
        int row = threadIdx.x >> 3, unit = threadIdx.x & 7;
        u32 to = of.shared + THIRD + unit_at<128>(row, unit);
#pragma unroll 4
        for (int i = 0; i < IMAGE_WIDTH; i += 16)
            copy16(to + i * 128, p.values + (i + row) * 64 + unit * 8, true);
        copies_commit();
    }

    /// scores[4 half + m], columns 2 part and the next: rows 32 half + 8 part + 2 m and the next of
    /// K, which has come.
    __device__ __forceinline__ static void score(const u32 (&placed)[2 * STEPS][4], float (&scores)[8][4],
                                                 const ImageLane& of) {
        // In a fragment row `group` is the one that the lanes of a quad have as theirs: group % 2
        // of lane group / 2.
        int row = (of.group >> 1) * 8 + (of.group & 1);
        u32 keys[4];
#pragma unroll
        for (int m = 0; m < 4; m++) keys[m] = of.shared + SECOND + unit_at<ROW>(row + 2 * m, of.part);
#pragma unroll
        for (int step = 0; step < STEPS; step++) {
            u32 b[8][4];
#pragma unroll
            for (int i = 0; i < 8; i++)
                load_shared(b[i],
                            (keys[i & 3] ^ ((step & 1) << 6)) + (i >> 2) * 32 * ROW + (step >> 1) * 128);
#pragma unroll
            for (int half = 0; half < 2; half++)
#pragma unroll
                for (int i = 0; i < 8; i++)
                    multiply_step(scores[i], placed[2 * step], placed[2 * step + 1], b[i], half);
        }
    }

    /// Softmax: a lane has all scores of two heads of both tokens.
    __device__ __forceinline__ void weigh(const float (&scores)[8][4]) {
#pragma unroll
        for (int half = 0; half < 2; half++)
#pragma unroll
            for (int token = 0; token < 2; token++) {
                float top = NOTHING, sum = 0.0f, weights[8];
#pragma unroll
                for (int j = 0; j < 8; j++)
                    top = fmaxf(top, scores[4 * half + (j >> 1)][2 * token + (j & 1)]);
#pragma unroll
                for (int j = 0; j < 8; j++) {
                    weights[j] = power_of_two(
                        fmaf(scores[4 * half + (j >> 1)][2 * token + (j & 1)], LOG2E, -top * LOG2E));
                    sum += weights[j];
                }
                float share = reciprocal(sum);
#pragma unroll
                for (int m = 0; m < 4; m++)
                    shares[half][token][m] = to_f16x2(weights[2 * m] * share, weights[2 * m + 1] * share);
            }
    }

    /// bias + V p + x; V has come.
    __device__ __forceinline__ void multiply(const ImageLane& of) {
        u32 values = of.shared + THIRD + unit_at<128>(of.group, of.part);
        // This lane's row of x for ldmatrix; a row of a matrix is a unit.
        int row = of.warp * 16 + (of.lane & 15);
        u32 own = of.shared + unit_at<ROW>(row, of.lane >> 4);
        u32 one = of.part == of.group >> 1 ? (of.group & 1 ? 0x3c000000u : 0x3c00u) : 0u;  // of the identity
#pragma unroll
        for (int i = 0; i < EIGHTS; i += 4) {
            u32 b[4][2][4], x[2][4];
#pragma unroll
            for (int n = 0; n < 4; n++)
#pragma unroll
                for (int half = 0; half < 2; half++)
                    load_shared(b[n][half], (values ^ (half << 6)) + (i + n) * 8 * 128);
#pragma unroll
            for (int n = 0; n < 2; n++)
                load_matrices(x[n], (own ^ (((i + 2 * n) & 7) * 16)) + (i >> 3) * 128);
#pragma unroll
            for (int k = 0; k < 4; k++)
#pragma unroll
                for (int n = 0; n < 4; n++)
                    multiply_step(result[i + n], shares[k >> 1][0], shares[k >> 1][1], b[n][k >> 1], k & 1);
#pragma unroll
            for (int n = 0; n < 4; n++) {
                u32 a[4] = {x[n >> 1][(n & 1) * 2], x[n >> 1][(n & 1) * 2 + 1]};
                multiply_add_eight(result[i + n], a, one);
            }
        }
    }

    /// The norm, to shared memory.
    __device__ __forceinline__ void normalize(const ImageLane& of) const {
        // Sums of even and of odd columns: short chains.
        float sums[2][2] = {}, squares[2][2] = {}, scale[2], shift[2];
#pragma unroll
        for (int i = 0; i < EIGHTS; i++)
#pragma unroll
            for (int k = 0; k < 4; k++) sums[k >> 1][k & 1] += result[i][k];
#pragma unroll
        for (int token = 0; token < 2; token++)
            shift[token] = sum_of_lanes<1, 4>(sums[token][0] + sums[token][1]) * (-1.0f / IMAGE_WIDTH);
#pragma unroll
        for (int i = 0; i < EIGHTS; i++)
#pragma unroll
            for (int k = 0; k < 4; k++) {
                float off = result[i][k] + shift[k >> 1];
                squares[k >> 1][k & 1] = fmaf(off, off, squares[k >> 1][k & 1]);
            }
#pragma unroll
        for (int token = 0; token < 2; token++) {
            scale[token] = reciprocal_root(
                sum_of_lanes<1, 4>(squares[token][0] + squares[token][1]) * (1.0f / IMAGE_WIDTH) +
                NORM_EPSILON);
            shift[token] *= scale[token];
        }
        u32 to = of.shared + unit_at<ROW>(of.warp * 16 + of.group, 0) + of.part * 4,
            weights = of.shared + NORM_WEIGHT + of.part * 8;
#pragma unroll
        for (int i = 0; i < EIGHTS; i++) {
            float2 weight = load_shared_pair(weights + i * 32),
                   bias = load_shared_pair(weights + (NORM_BIAS - NORM_WEIGHT) + i * 32);
#pragma unroll
            for (int token = 0; token < 2; token++) {
                float first = fmaf(result[i][2 * token], scale[token], shift[token]);
                float second = fmaf(result[i][2 * token + 1], scale[token], shift[token]);
                store_shared_word((to ^ ((i & 7) * 16)) + (i >> 3) * 128 + token * 8 * ROW,
                                  to_f16x2(fmaf(first, weight.x, bias.x), fmaf(second, weight.y, bias.y)));
            }
        }
    }

    /// The warp's rows of y, a unit a lane, to memory; y + pe to shared memory.
    __device__ __forceinline__ static void store(const WriteProblem& p, const ImageLane& of) {
        u32 places[16][4];
#pragma unroll
        for (int i = 0; i < 16; i++)
            load_line(places[i], p.pe + ImageLane::offset(of.warp * 16 + i, p.tokens) + of.lane * 8);
#pragma unroll
        for (int i = 0; i < 16; i++) {
            int row = of.warp * 16 + i, token = blockIdx.x * IMAGE_TILE + row;
            u32 own[4], at = of.shared + unit_at<ROW>(row, of.lane);
            load_shared(own, at);
            if (token < p.tokens)
                *(uint4*)(p.y + token * IMAGE_WIDTH + of.lane * 8) =
                    make_uint4(own[0], own[1], own[2], own[3]);
#pragma unroll
            for (int k = 0; k < 4; k++) own[k] = add_halves(own[k], places[i][k]);
            store_shared(at + THIRD, own);
        }
    }

    /// Of the block's threads: y of their tile, y + pe THIRD bytes behind it. `meanwhile` is done
    /// before the norm.
    template <class Meanwhile>
    __device__ __forceinline__ void run(const WriteProblem& p, const ImageLane& of, Meanwhile meanwhile) {
        u32 placed[2 * STEPS][4];
        float scores[8][4];
        float2 norm[2];
        norm[0] = load_pair(p.norm_weight + threadIdx.x * 2);
        norm[1] = load_pair(p.norm_bias + threadIdx.x * 2);
        auto before = [&] {
            dependent_wait();
            dependent_launch();
            // Little things first: behind what waits for the tile they would come late.
#pragma unroll
            for (int i = 0; i < 8; i++) {
                float2 bias = load_coherent_pair(p.key_bias + (i >> 2) * 32 + of.part * 8 + (i & 3) * 2);
                scores[i][0] = bias.x, scores[i][1] = bias.y;
            }
        };
        of.fetch(p.x, p.pe, p.tokens, placed, before, [&] { fetch(p, of); });
#pragma unroll
        for (int i = 0; i < 8; i++) scores[i][2] = scores[i][0], scores[i][3] = scores[i][1];
        copies_wait<1>();
        block_barrier();  // K is there
        score(placed, scores, of);
#pragma unroll
        for (int i = 0; i < EIGHTS; i++) {
            float2 bias = load_pair(p.bias + i * 8 + of.part * 2);
            result[i][0] = bias.x, result[i][1] = bias.y;
        }
        weigh(scores);
#pragma unroll
        for (int i = 0; i < EIGHTS; i++) result[i][2] = result[i][0], result[i][3] = result[i][1];
        copies_wait<0>();
        block_barrier();  // V is there, and nobody needs K
        store_shared_pair(of.shared + NORM_WEIGHT + threadIdx.x * 8, norm[0]);
        store_shared_pair(of.shared + NORM_BIAS + threadIdx.x * 8, norm[1]);
        multiply(of);
        meanwhile();
        block_barrier();  // the norm's weight and bias are there, and nobody needs V
        normalize(of);
        warp_barrier();
        store(p, of);
        block_barrier();
    }
};

/// A block of mask_decoder_token_to_image_attn.
__device__ __forceinline__ void read_image(const f16* x, const f16* pe, const ReadProblem& p, u32 shared) {
    ImageLane of(shared);
    ImageRead<SECOND> read;
    u32 placed[2 * STEPS][4];
    auto before = [] {
        dependent_wait();
        dependent_launch();
    };
    of.fetch(x, pe, p.tokens, placed, before, [&] { read.start(p, of); });
#pragma unroll
    for (int i = 0; i < 2 * STEPS; i++)
        store_shared(of.at(of.warp * 16 + (i & 1) * 8, i >> 1) + SECOND, placed[i]);
    block_barrier();
    read.run(p, of);
}

/// A block of mask_decoder_image_to_token_attn.
__device__ __forceinline__ void write_image(const WriteProblem& p, const ReadProblem& behind, u32 shared) {
    ImageLane of(shared);
    ImageRead<THIRD> read;
    ImageWrite write;
    write.run(p, of, [&] { read.start(behind, of); });
    read.run(behind, of);
}

// ---- instances ----

/// READ_SHARED bytes of shared memory.
extern "C" __global__ void __launch_bounds__(IMAGE_THREADS, 1)
    mask_decoder_token_to_image_attn(const f16* x, const f16* pe, const f16* folded, const f16* values,
                                     float* sums, float* parts, int tokens) {
    extern __shared__ __align__(1024) unsigned char memory[];
    read_image(x, pe, ReadProblem{folded, values, sums, parts, tokens}, shared_address(memory));
}

/// WRITE_SHARED bytes of shared memory.
extern "C" __global__ void __launch_bounds__(IMAGE_THREADS, 1)
    mask_decoder_image_to_token_attn(const f16* x, const f16* pe, const f16* keys, const float* key_bias,
                                     const f16* values, const float* bias, const float* norm_weight,
                                     const float* norm_bias, f16* y, const f16* folded,
                                     const f16* read_values, float* sums, float* parts, int tokens) {
    extern __shared__ __align__(1024) unsigned char memory[];
    write_image(WriteProblem{x, pe, keys, key_bias, values, bias, norm_weight, norm_bias, y, tokens},
                ReadProblem{folded, read_values, sums, parts, tokens}, shared_address(memory));
}
