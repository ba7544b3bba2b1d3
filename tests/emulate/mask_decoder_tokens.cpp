/*!
Runs the source of the mask decoder's tokens (cuda/mask_decoder_tokens.cu, mask_decoder_heads.cu) on
the CPU (machine.h) and compares every kernel with a float64 reference that knows linear layers,
attention and norms, not what is folded how: first each kernel alone, then what follows one another
in a frame.
*/
#include <memory>
#include "harness.h"
static float rsqrtf(float x) { return reciprocal_root(x); }
#include "mask_decoder_tokens.h"
static bool failed = false;
template <class T> static void compare(const char* what, T& found, const Numbers& wanted, double limit) {
    Shares of = shares_of(found, wanted, [](size_t) { return true; });
    bool bad = exceeds(of.worst, limit) || found.beyond() || wanted.size() != found.count;
    printf("  %-44s worst relative error %.2e%s%s\n", what, of.worst,
           found.beyond() ? ", written beyond" : "", bad ? " BAD" : "");
    fflush(stdout); failed |= bad;
}
/// What lies in memory as two summands, one behind the other.
template <class T> static Numbers both(T& parts) {
    Numbers y(parts.count / 2);
    for (size_t i = 0; i < y.size(); i++) y[i] = parts.at(i) + parts.at(y.size() + i);
    return y;
}
template <class T> static void compare_split(const char* what, T& parts, const Numbers& wanted, double limit) {
    Reals found(parts.count / 2);
    const Numbers all = both(parts);
    for (size_t i = 0; i < all.size(); i++) found[i] = all[i];
    if (parts.beyond()) printf("  %s: written beyond BAD\n", what), failed = true;
    compare(what, found, wanted, limit);
}
const double SINGLE = 2e-4, ROUNDED = 1e-3;  // limits of f32 and of halves

// ---- reference ----

static Numbers plus(Numbers a, const Numbers& b) {
    for (size_t i = 0; i < a.size(); i++) a[i] += b[i % b.size()];
    return a;
}
/// Rows [n, in] by a weight [out, in].
template <class W>
static Numbers linear(const Numbers& x, int in, W& weight, Reals& bias, size_t first = 0, size_t out = 0) {
    out = out ? out : bias.count;
    size_t n = x.size() / in;
    Numbers y(n * out);
    for (size_t r = 0; r < n; r++) for (size_t o = 0; o < out; o++) {
        double s = bias.at(first + o);
        for (int i = 0; i < in; i++) s += x[r * in + i] * weight.at((first + o) * in + i);
        y[r * out + o] = s;
    }
    return y;
}
static Halves transposed(Halves& x, int rows) {
    int columns = x.count / rows;
    Halves y(x.count);
    for (int r = 0; r < rows; r++) for (int c = 0; c < columns; c++) y[c * rows + r] = x[r * columns + c];
    return y;
}
static Numbers norm(Numbers x, Reals& weight, Reals& bias) {
    for (size_t r = 0; r < x.size(); r += 256) normalize64(&x[r], 256, weight.data(), bias.data(), 1e-5);
    return x;
}
static Numbers relu(Numbers x) { for (double& v : x) v = v < 0 ? 0 : v; return x; }
/// Of each head h and token j: its columns by a weight's rows of that head: [64, 256].
static Numbers fold(const Numbers& x, Halves& weight) {
    Numbers y(64 * 256);
    for (int r = 0; r < 64; r++)
        for (int c = 0; c < 256; c++)
            for (int d = 0; d < 16; d++)
                y[r * 256 + c] += x[r % 8 * 128 + r / 8 * 16 + d] * weight.at((r / 8 * 16 + d) * 256 + c);
    return y;
}
static Numbers attention(const Numbers& q, const Numbers& k, const Numbers& v) {
    Numbers y(8 * 256);
    for (int h = 0; h < 8; h++) for (int i = 0; i < 8; i++) {
        double score[8], top = -1e300, total = 0;
        for (int j = 0; j < 8; j++) {
            score[j] = 0;
            for (int d = h * 32; d < h * 32 + 32; d++) score[j] += q[i * 256 + d] * k[j * 256 + d];
            top = std::max(top, score[j]);
        }
        for (int j = 0; j < 8; j++) total += score[j] = exp(score[j] - top);
        for (int j = 0; j < 8; j++)
            for (int d = h * 32; d < h * 32 + 32; d++) y[i * 256 + d] += score[j] / total * v[j * 256 + d];
    }
    return y;
}
/// The rows that the heads' MLPs are given, by the tokens.
static Numbers head_tokens(const Numbers& tokens) {
    const int token[8] = {0, 1, 3, 4, 5, 3, 4, 5};
    Numbers x(2048);
    for (int r = 0; r < 8; r++) for (int i = 0; i < 256; i++) x[r * 256 + i] = tokens[token[r] * 256 + i];
    return x;
}
/// An inner layer of the heads' MLPs.
static Numbers inner_layer(const Numbers& x, Reals& weight, Reals& bias) {
    const int network[8] = {0, 1, 2, 3, 4, 5, 5, 5};
    Numbers y(2048);
    for (int r = 0; r < 8; r++) for (int o = 0; o < 256; o++) {
        double s = bias.at(network[r] * 256 + o);
        for (int i = 0; i < 256; i++) s += x[r * 256 + i] * weight.at((network[r] * 256 + i) * 256 + o);
        y[r * 256 + o] = s < 0 ? 0 : s;
    }
    return y;
}

// ---- launches ----

template <class S, class F> static void launch(Dim grid, F kernel) { launch_with<S>(grid, 256, kernel); }

/// ImageTiles of a pass over the image, whose maxima are about `height`, and what follows it.
struct ImageTiles {
    int tiles; float height;
    Reals sums, parts, value_bias{128, 0.3}, out_bias{256, 0.3}, queries{2048, 1}, weight{256, 0.2, 1},
        bias{256, 0.2}, read{8 * 128}, out{2048};
    Halves projection{256 * 128, 0.09}, turned = transposed(projection, 256);
    Numbers wanted_read = Numbers(8 * 128), wanted;

    ImageTiles(int tiles, float height)
        : tiles(tiles), height(height), sums(tiles * 128), parts(tiles * 1024) {
        for (int t = 0; t < tiles; t++) for (int r = 0; r < 64; r++) {
            float most = 1 + 31.5f * (1 + sinf(t * 64 + r));
            sums[(t * 64 + r) * 2] = height * normal(rng), sums[(t * 64 + r) * 2 + 1] = most;
            for (int d = 0; d < 16; d++) parts[(t * 8 + r % 8) * 128 + r / 8 * 16 + d] = most * normal(rng);
        }
        for (int j = 0; j < 8; j++) for (int h = 0; h < 8; h++) {
            double top = -1e300, total = 0, sum[16] = {};
            for (int t = 0; t < tiles; t++) top = std::max(top, sums.at((t * 64 + h * 8 + j) * 2));
            for (int t = 0; t < tiles; t++) {
                double scale = exp(sums.at((t * 64 + h * 8 + j) * 2) - top);
                total += scale * sums.at((t * 64 + h * 8 + j) * 2 + 1);
                for (int d = 0; d < 16; d++) sum[d] += scale * parts.at((t * 8 + j) * 128 + h * 16 + d);
            }
            for (int d = 0; d < 16; d++)
                wanted_read[j * 128 + h * 16 + d] = sum[d] / total + value_bias.at(h * 16 + d);
        }
        wanted = norm(plus(queries.values(), linear(wanted_read, 128, projection, out_bias)), weight, bias);
    }
    template <class T> void compared(const char* kernels, T& found, const Numbers& wanted) {
        char what[99];
        snprintf(what, sizeof what, "%s, %d tiles, maxima of %g", kernels, tiles, height);
        compare(what, found, wanted, SINGLE);
    }
    void gathered() {
        depends_on(sums, parts, queries, out);
        launch<GatherShared>({8, 1, 1}, [&](GatherShared& s) {
            gather({sums.data(), parts.data(), value_bias.data(), turned.data(), out_bias.data(),
                    queries.data(), weight.data(), bias.data(), out.data(), tiles, 1},
                   s);
        });
        compared("mask_decoder_combine_splits", out, wanted);
    }
    void joined() {
        depends_on(sums, parts, read);
        launch({64, 1, 1}, 32, 0,
               [&] { join({sums.data(), parts.data(), value_bias.data(), read.data(), tiles, 1}); });
        compared("mask_decoder_join_splits", read, wanted_read);
    }
    ProjectProblem problem() {
        return {read.data(),    turned.data(), out_bias.data(),
                queries.data(), weight.data(), bias.data()};
    }
    void projected() {
        Reals up_bias(2048, 0.3);
        Halves up(2048 * 256, 0.07), hidden(2 * 8 * 2048);
        depends_on(read, queries, out, hidden);
        launch<ProjectUpShared>({64, 1, 1}, [&](ProjectUpShared& s) {
            project_and_expand(problem(), out.data(), up.data(), up_bias.data(), hidden.data(), 1, s);
        });
        compare("... and mask_decoder_token_proj_mlp_up, queries", out, wanted, SINGLE);
        compare_split("hidden layer", hidden, relu(linear(wanted, 256, up, up_bias)), SINGLE);
        Reals inner(6 * 65536, 0.07), inner_bias(6 * 256, 0.3), rows(2048);
        depends_on(read, queries, rows);
        launch<heads::ProjectInnerShared>({8, 4, 1}, [&](heads::ProjectInnerShared& s) {
            heads::project_and_start(problem(), inner.data(), inner_bias.data(), rows.data(), 1, s);
        });
        compare("... and mask_decoder_proj_head_mlps", rows, inner_layer(head_tokens(wanted), inner, inner_bias),
                SINGLE);
    }
};

static void mlp() {
    Reals queries(2048, 1), bias(2048, 0.3), narrow_bias(256, 0.3), sum(2 * 2048);
    Halves up(2048 * 256, 0.07), down(256 * 2048, 0.03), hidden(2 * 8 * 2048);
    depends_on(queries, hidden);
    launch<Up>({64, 1, 1}, [&](Up& s) { expand(queries.data(), up.data(), bias.data(), hidden.data(), 1, s); });
    Numbers wanted = relu(linear(queries.values(), 256, up, bias));
    compare_split("mask_decoder_token_mlp_up", hidden, wanted, SINGLE);
    depends_on(hidden, queries, sum);
    launch<Down>({64, 1, 1}, [&](Down& s) {
        narrow(hidden.data(), down.data(), narrow_bias.data(), queries.data(), sum.data(), 1, s);
    });
    compare_split("mask_decoder_token_mlp_up, mask_decoder_token_mlp_down", sum,
            plus(linear(wanted, 2048, down, narrow_bias), queries.values()), SINGLE);
}

/// The launches between a layer's MLP and the next pass over the image, with weights that give
/// scores of about `height`.
struct Layers {
    Reals sum{2 * 2048, 1.1, 0.15}, weight{256, 0.2, 1}, bias{256, 0.2}, tokens{2048, 0.7};
    Halves key, value{128 * 256, 0.06}, query{128 * 256, 0.06}, out{256 * 128, 0.09};
    Reals key_bias{128, 0.3}, value_bias{128, 0.3}, query_bias{128, 0.3};
    Reals queries{2048}, scores_bias{64};
    Halves keys{64 * 256}, values_out{256 * 64};
    Halves self;
    Reals self_bias{768, 0.3}, attended{2048};
    Halves projection{256 * 256, 0.06}, turned = transposed(projection, 256);
    Reals out_bias{256, 0.3}, turn_weight{256, 0.2, 1}, turn_bias{256, 0.2}, turn_out{2048};
    Halves read_query{128 * 256, 0.06}, read_key{128 * 256, 0.06}, folded{64 * 256};
    Reals read_bias{128, 0.3};
    Numbers normed, moved;

    Layers(float height) : key(128 * 256, 0.06), self(768 * 256, 0.03f * sqrtf(height)) {}
    FoldProblem problem() {
        return {sum.data(),      weight.data(),  bias.data(),       tokens.data(),      key.data(),
                key_bias.data(), value.data(),   value_bias.data(), query.data(),       query_bias.data(),
                out.data(),      queries.data(), keys.data(),       scores_bias.data(), values_out.data(), 1};
    }
    void written(const char* kernel) {
        printf("%s\n", kernel);
        normed = norm(both(sum), weight, bias), moved = plus(normed, tokens.values());
        compare("queries", queries, normed, SINGLE);
        Numbers k = linear(moved, 256, key, key_bias), v = linear(normed, 256, value, value_bias), s(64),
                V(256 * 64);
        for (int r = 0; r < 64; r++) for (int d = r / 8 * 16; d < r / 8 * 16 + 16; d++) {
            s[r] += query_bias.at(d) * k[r % 8 * 128 + d];
            for (int c = 0; c < 256; c++) V[c * 64 + r] += out.at(c * 128 + d) * v[r % 8 * 128 + d];
        }
        compare("K", keys, fold(k, query), ROUNDED), compare("s", scores_bias, s, SINGLE),
            compare("V", values_out, V, ROUNDED);
    }
    void attend(float height) {
        depends_on(sum, queries, keys, scores_bias, values_out, attended);
        launch<FoldShared>({16, 1, 1}, [&](FoldShared& s) {
            if (blockIdx.x < 8) Fold().write(problem(), blockIdx.x, s);
            else Fold().attend(problem(), blockIdx.x - 8, self.data(), self_bias.data(), attended.data(), s);
        });
        char what[99];
        snprintf(what, sizeof what, "mask_decoder_fold_self_attn, scores of about %g", height);
        written(what);
        Numbers wanted = attention(linear(moved, 256, self, self_bias, 0, 256),
                                   linear(moved, 256, self, self_bias, 256, 256),
                                   linear(normed, 256, self, self_bias, 512, 256));
        compare("attended", attended, wanted, SINGLE);
        // Alone, of what the kernel in front has found, then of what it should have.
        depends_on(attended, queries, turn_out, folded);
        launch<TurnShared>({8, 1, 1}, [&](TurnShared& s) {
            turn({attended.data(), turned.data(), out_bias.data(), queries.data(), turn_weight.data(),
                  turn_bias.data(), tokens.data(), read_query.data(), read_bias.data(), read_key.data(),
                  turn_out.data(), folded.data(), 1},
                 s);
        });
        turn_wanted("mask_decoder_token_self_attn", attended.values(), queries.values());
        turn_wanted("mask_decoder_fold_self_attn, mask_decoder_token_self_attn", wanted, normed);
    }
    void turn_wanted(const char* kernels, const Numbers& attended, const Numbers& queries) {
        printf("%s\n", kernels);
        Numbers y = norm(plus(queries, linear(attended, 256, projection, out_bias)), turn_weight, turn_bias);
        compare("queries", turn_out, y, SINGLE);
        compare("F", folded, fold(linear(plus(y, tokens.values()), 256, read_query, read_bias), read_key),
                ROUNDED);
    }
    void read() {
        depends_on(sum, queries, keys, scores_bias, values_out, folded);
        launch<FoldShared>({16, 1, 1}, [&](FoldShared& s) {
            if (blockIdx.x < 8) Fold().write(problem(), blockIdx.x, s);
            else
                Fold().read(problem(), blockIdx.x - 8, read_query.data(), read_bias.data(), read_key.data(),
                            folded.data(), s);
        });
        written("mask_decoder_fold_token_to_image");
        compare("F", folded, fold(linear(moved, 256, read_query, read_bias), read_key), ROUNDED);
    }
};

/// `kind`: 0 random, 1 three equal IoUs, 2 the last two equal and above the first, 3 saturated
/// probabilities, 4 the last one best.
struct Answers { const char* name; int kind; float score; int probable, best; };

static void answers(Answers c) {
    Reals tokens(2048, 1), inner[2] = {{6 * 65536, 0.07}, {6 * 65536, 0.07}},
                           inner_bias[2] = {{6 * 256, 0.3}, {6 * 256, 0.3}}, rows[2] = {{2048}, {2048}};
    Reals score_weight(257, 0.06), iou_weight(4 * 257, 0.06), hyper(3 * 32 * 257, 0.06),
        pointer_weight(257 * 256, 0.06), none(256, 1), iou(1), each_iou(3), score(1), vector(32);
    Halves pointer(256);
    for (int i = 0; i < 257; i++) {
        if (c.kind == 1) iou_weight[257 + i] = iou_weight[2 * 257 + i] = iou_weight[3 * 257 + i];
        if (c.kind == 2)
            iou_weight[2 * 257 + i] = iou_weight[3 * 257 + i],
                                 iou_weight[257 + i] = iou_weight[3 * 257 + i] - (i == 256);
        if (c.kind == 3)
            iou_weight[257 + i] = iou_weight[2 * 257 + i] = iou_weight[3 * 257 + i] = i == 256 ? 40 : 0;
        if (c.kind == 4)
            iou_weight[3 * 257 + i] = iou_weight[257 + i] + (i == 256),
                                 iou_weight[2 * 257 + i] = iou_weight[257 + i] + 0.5f * (i == 256);
        if (c.score <= 0 || std::isnan(c.score)) score_weight[i] = i == 256 ? c.score : 0;
    }
    if (c.score > 0) score_weight[256] = 8;
    if (c.kind == 3) iou_weight[2 * 257 + 256] = 60;
    iou_weight[256] = 99;  // of mask 0, which is no choice
    for (int i = 0; i < 2; i++) {
        depends_on(i ? rows[0] : tokens, rows[i]);
        launch<heads::InnerShared>({8, 4, 1}, [&](heads::InnerShared& s) {
            heads::inner_layer(i ? rows[0].data() : tokens.data(), inner[i].data(), inner_bias[i].data(),
                               rows[i].data(), i == 0, 1, s);
        });
    }
    depends_on(rows[1], iou, each_iou, pointer, score, vector);
    launch<heads::AnswerShared>({4, 1, 1}, [&](heads::AnswerShared& s) {
        heads::answer({rows[1].data(), score_weight.data(), iou_weight.data(), hyper.data(),
                       pointer_weight.data(), none.data(), iou.data(), each_iou.data(), pointer.data(),
                       score.data(), vector.data(), c.probable, 1},
                      s);
    });
    printf("%s\n", c.name);
    Numbers x = head_tokens(tokens.values());
    for (int l = 0; l < 2; l++) {
        x = inner_layer(x, inner[l], inner_bias[l]);
        compare(l ? "mask_decoder_head_mlps twice" : "mask_decoder_head_mlps", rows[l], x, SINGLE);
    }
    auto row = [&](int r, Reals& weight, size_t first) {
        double s = weight.at(first * 257 + 256);
        for (int i = 0; i < 256; i++) s += x[r * 256 + i] * weight.at(first * 257 + i);
        return s;
    };
    double ious[3], wanted = row(0, score_weight, 0); int best = 0;
    for (int m = 0; m < 3; m++) {
        ious[m] = row(1, iou_weight, 1 + m);
        if (c.probable) ious[m] = 1 / (1 + exp(-ious[m]));
        if (ious[m] > ious[best]) best = m;
    }
    if (c.best >= 0 && c.best != best) { printf("the reference chose mask %d BAD\n", best); failed = true; }
    Numbers v(32), p(256);
    for (int i = 0; i < 32; i++) v[i] = row(2 + best, hyper, best * 32 + i);
    for (int o = 0; o < 256; o++) {
        p[o] = pointer_weight.at(65536 + o);
        for (int i = 0; i < 256; i++) p[o] += x[(5 + best) * 256 + i] * pointer_weight.at(i * 256 + o);
        if (!(wanted > 0)) p[o] = half(tohalf(none[o]));
    }
    if (std::isnan(wanted)) {
        if (!std::isnan(score[0])) failed = true, printf("  a score that is not a NaN BAD\n");
    } else compare("score", score, {wanted}, SINGLE);
    if ((wanted > 0) != (c.score > 0)) { printf("the reference's score is %g BAD\n", wanted); failed = true; }
    compare("IoU", iou, {ious[best]}, SINGLE), compare("IoUs", each_iou, {ious[0], ious[1], ious[2]}, SINGLE),
        compare("vector", vector, v, SINGLE), compare("pointer", pointer, p, wanted > 0 ? ROUNDED : 1e-30);
}

int main(int count, char** words) {
    const bool all = !shipped_alone(count, words);
    for (int tiles : {1, 64, 128}) {
        ImageTiles of(tiles, 10);
        of.gathered(), of.joined(), of.projected();
    }
    if (all) for (int tiles : {2, 7, 63, 65, 127, 129, 300}) for (float height : {3.0f, 100.0f}) {
        ImageTiles of(tiles, height);
        of.gathered(), of.joined();
    }
    mlp();
    for (float height : {1.0f, 20.0f}) Layers(height).attend(height);
    Layers(1).read();
    answers({"any IoUs, present", 0, 1, 0, -1});
    answers({"three equal probabilities, absent", 1, -2, 1, 0});
    answers({"the second and the third equal, a score of 0", 2, 0, 0, 1});
    if (all) {
        answers({"any probabilities, present", 0, 1, 1, -1});
        answers({"three equal IoUs, present", 1, 1, 0, 0});
        answers({"the second and the third equal as probabilities, present", 2, 1, 1, 1});
        answers({"probabilities that are all 1, present", 3, 1, 1, 0});
        answers({"the same before the sigmoid, present", 3, 1, 0, 1});
        answers({"the third best, a score that is not a number", 4, NAN, 0, 2});
    }
    puts(failed ? "decoder tokens BAD" : "decoder tokens ok");
    return failed;
}
