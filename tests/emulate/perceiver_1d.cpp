/*!
Runs the source of the perceiver's latents (cuda/perceiver_1d.cu) on the CPU (machine.h) and
compares with a float64 reference that knows attention, norms and layers, not splits and tiles: each
kernel alone, from what it is given, then two layers one behind the other. What is rounded to halves
on the way costs a few 1e-4; scores are up to some 30.
*/
#include "harness.h"
#include "perceiver_1d.h"
static bool failed = false;
/// The error of each row beside the row, as lengths, and the largest of all; the worst of all
/// numbers beside what is usual.
template <class T>
static void compare(const char* what, T& found, const Numbers& wanted, double limit, int width = 64) {
    double worst = 0, square = 0; Errors all;
    for (double w : wanted) square += w * w;
    double usual = sqrt(square / wanted.size());
    for (size_t r = 0; r < wanted.size(); r += width) {
        Errors row;
        for (int i = 0; i < width; i++) row.add(found.at(r + i), wanted[r + i]);
        worst = std::max(worst, sqrt(row.square) / (sqrt(row.size) + 1e-30)),
        all.most = std::max(all.most, row.most);
    }
    const double most = all.most / usual;
    bool bad =
        exceeds(worst, limit) || exceeds(most, 6 * limit) || found.beyond() || wanted.size() != found.count;
    printf("  %-34s worst row %.2e, worst number %.2e of the usual (limit %.1e)%s%s\n", what, worst, most,
           limit, found.beyond() ? ", written beyond" : "", bad ? " BAD" : "");
    fflush(stdout); failed |= bad;
}

// ---- reference ----

static Numbers plus(Numbers a, const Numbers& b) {
    for (size_t i = 0; i < a.size(); i++) a[i] += b[i];
    return a;
}
static Numbers linear(const Numbers& x, int in, Halves& weight, size_t first = 0, size_t out = 0) {
    out = out ? out : weight.count / in;
    size_t n = x.size() / in;
    Numbers y(n * out), w(out * in);
    for (size_t i = 0; i < w.size(); i++) w[i] = weight.at(first * in + i);
    for (size_t r = 0; r < n; r++)
        for (size_t o = 0; o < out; o++) {
            double s = 0;
            for (int i = 0; i < in; i++) s += x[r * in + i] * w[o * in + i];
            y[r * out + o] = s;
        }
    return y;
}
static Numbers norm(Numbers x, Reals& weight, Reals& bias) {
    for (size_t r = 0; r < x.size(); r += 64) normalize64(&x[r], 64, weight.data(), bias.data(), 1e-5);
    return x;
}
static Numbers activated(Numbers x) { for (double& v : x) v = gelu64(v); return x; }
static double top_score;
/// All queries' attention to keys from `first` to `end`: m, sum and sum of values, or their quotient.
static Numbers attention(const Numbers& q, const Numbers& k, const Numbers& v, size_t first, size_t end,
                         Numbers* stats = 0) {
    Numbers y(q.size()), s(end);
    for (size_t r = 0; r < q.size() / 64; r++) {
        double top = -1e300, total = 0;
        for (size_t n = first; n < end; n++) {
            s[n] = 0;
            for (int i = 0; i < 64; i++) s[n] += q[r * 64 + i] * k[n * 64 + i];
            top = std::max(top, s[n]), top_score = std::max(top_score, fabs(s[n]));
        }
        for (size_t n = first; n < end; n++) {
            double w = exp(s[n] - top);
            total += w;
            for (int i = 0; i < 64; i++) y[r * 64 + i] += w * v[n * 64 + i];
        }
        if (stats) stats->push_back(top), stats->push_back(total);
        else for (int i = 0; i < 64; i++) y[r * 64 + i] /= total;
    }
    return y;
}
static Numbers rounded(Numbers x) { for (double& v : x) v = half(tohalf(v)); return x; }

// ---- launches ----

/// A launch whose bank conflicts are counted by themselves.
template <class F> static void launched(Dim grid, int threads, u32 bytes, F kernel) {
    conflicts = loads = 0;
    launch(grid, threads, bytes, kernel);
    if (conflicts) printf("  bank conflicts %ld of %ld BAD\n", conflicts, loads), failed = true;
}

/// A layer's weights; scores to tokens and to latents are of about `height` at most.
struct Layer {
    Reals norm_weight{64, 0.2, 1}, norm_bias{64, 0.2};
    Halves kv;
    Halves out{64 * 64, 0.12}, up{256 * 64, 0.12}, down{64 * 256, 0.06};
    Reals ff_weight{64, 0.2, 1}, ff_bias{64, 0.2}, self_weight{64, 0.2, 1}, self_bias{64, 0.2};
    Halves qkv;
    Halves self_out{64 * 64, 0.12}, self_up{256 * 64, 0.12}, self_down{64 * 256, 0.06};
    Reals self_ff_weight{64, 0.2, 1}, self_ff_bias{64, 0.2};
    Layer(float height) : kv(128 * 64, 0.1), qkv(192 * 64, 0.12) {
        for (int i = 0; i < 128 * 64; i++) qkv[i] = tohalf(normal(rng) * 0.022f * sqrtf(height));
    }
};
/// What the layers in front of and behind a layer give and take.
struct Next { Reals weight{64, 0.2, 1}, bias{64, 0.2}; Halves query{64 * 64, 0.1}; };

static Numbers feed_forward(const Numbers& a, Reals& weight, Reals& bias, Halves& up, Halves& down) {
    return plus(a, linear(activated(linear(norm(a, weight, bias), 64, up)), 256, down));
}

/// Of a row: what is multiplied is rounded five times on the way, and what is stored as halves once more.
const double SINGLE = 6e-4, ROUNDED = 1e-3;

struct Frame {
    int tokens, splits;
    Halves memory, positions, queries;
    Reals latents{256 * 64, 1}, sums, parts, mixed{256 * 64}, next{256 * 64};
    Halves qkv{256 * 192}, result{256 * 64};
    Frame(int tokens, float height)
        : tokens(tokens),
          splits((tokens + 127) / 128),
          memory(tokens * 64, 1, 0.5),
          positions(tokens * 64, 0.7),
          queries(256 * 64, height / 40),
          sums((tokens + 127) / 128 * 512),
          parts((size_t)(tokens + 127) / 128 * 256 * 64) {}

    void attend(Layer& l) {
        depends_on(memory, queries, sums, parts);
        launched({4, (unsigned)splits, 1}, 256, ATTEND_BYTES, [&] {
            Attend().run({memory.data(), l.norm_weight.data(), l.norm_bias.data(), l.kv.data(),
                          positions.data(), queries.data(), sums.data(), parts.data(), tokens},
                         1024);
        });
    }
    void mixes(Layer& l, Reals& latents) {
        depends_on(sums, parts, latents, mixed, qkv);
        launched({32, 1, 1}, 512, MIX_BYTES, [&] {
            mix({sums.data(), parts.data(), splits, latents.data(), l.out.data(), l.ff_weight.data(),
                 l.ff_bias.data(), l.up.data(), l.down.data(), l.self_weight.data(), l.self_bias.data(),
                 l.qkv.data(), mixed.data(), qkv.data()},
                1024);
        });
    }
    void selves(Layer& l, Next& n, bool another, Reals& to, Halves& result) {
        depends_on(qkv, mixed, to, result);
        launched({32, 1, 1}, 512, SELF_BYTES, [&] {
            self({qkv.data(), mixed.data(), l.self_out.data(), l.self_ff_weight.data(), l.self_ff_bias.data(),
                  l.self_up.data(), l.self_down.data(), n.weight.data(), n.bias.data(),
                  another ? n.query.data() : 0, to.data(), result.data()},
                 1024);
        });
    }
    /// n, k and v in float64, and k and v rounded where the kernel rounds.
    void keys_of(Layer& l, bool round, Numbers& k, Numbers& v) {
        Numbers n = norm(memory.values(), l.norm_weight, l.norm_bias), place = positions.values();
        if (round) n = rounded(n);
        k = plus(linear(n, 64, l.kv, 0, 64), place), v = plus(linear(n, 64, l.kv, 64, 64), place);
        if (round) k = rounded(k), v = rounded(v);
    }
};

static Numbers wanted_mix(Layer& l, const Numbers& latents, const Numbers& read) {
    return feed_forward(plus(latents, linear(read, 64, l.out)), l.ff_weight, l.ff_bias, l.up, l.down);
}
static Numbers wanted_self(Layer& l, const Numbers& mixed, const Numbers& qkv) {
    Numbers each[3];
    for (int r = 0; r < 256; r++) for (int i = 0; i < 192; i++) each[i / 64].push_back(qkv[r * 192 + i]);
    return feed_forward(plus(mixed, linear(attention(each[0], each[1], each[2], 0, 256), 64, l.self_out)),
                        l.self_ff_weight, l.self_ff_bias, l.self_up, l.self_down);
}

/// perceiver_1d_mlp by itself, of what is in the frame's sums and parts.
static void mixed(Frame& f, Layer& l) {
    Numbers read(256 * 64);
    for (int r = 0; r < 256; r++) {
        double top = -1e300, total = 0;
        for (int s = 0; s < f.splits; s++) top = std::max(top, f.sums.at((s * 256 + r) * 2));
        for (int s = 0; s < f.splits; s++) {
            double w = exp(f.sums.at((s * 256 + r) * 2) - top);
            total += w * f.sums.at((s * 256 + r) * 2 + 1);
            for (int c = 0; c < 64; c++) read[r * 64 + c] += w * f.parts.at((size_t)(s * 256 + r) * 64 + c);
        }
        for (int c = 0; c < 64; c++) read[r * 64 + c] /= total;
    }
    f.mixes(l, f.latents);
    Numbers mixed = wanted_mix(l, f.latents.values(), read);
    compare("perceiver_1d_mlp: mixed", f.mixed, mixed, SINGLE);
    compare("perceiver_1d_mlp: qkv", f.qkv, linear(norm(mixed, l.self_weight, l.self_bias), 64, l.qkv),
            ROUNDED);
}
/// Of splits whose largest scores are far apart.
static void merged(int splits) {
    late = true;
    Frame f(splits * 128, 1); Layer l(1);
    for (size_t i = 0; i < f.sums.count; i += 2)
        f.sums[i] = normal(rng) * 3, f.sums[i + 1] = 1 + 40 * fabsf(normal(rng));
    for (size_t i = 0; i < f.parts.count; i++) f.parts[i] = f.sums[i / 64 * 2 + 1] * normal(rng);
    printf("%d splits\n", splits);
    mixed(f, l);
}

/// Each kernel by itself: what it is given is what the one in front has found.
static void alone(int tokens, float height, bool late_copies) {
    late = late_copies;
    Frame f(tokens, height); Layer l(height); Next n;
    Numbers k, v;
    top_score = 0;
    f.attend(l);
    f.keys_of(l, true, k, v);
    Numbers stats, parts, q = f.queries.values();
    for (int s = 0; s < f.splits; s++) {
        Numbers y = attention(q, k, v, s * 128, std::min(tokens, s * 128 + 128), &stats);
        parts.insert(parts.end(), y.begin(), y.end());
    }
    double worst = 0;
    for (size_t i = 0; i < stats.size(); i += 2) {
        double d = fabs(f.sums.at(i) - stats[i]);
        if (!(d <= worst)) worst = std::isnan(d) ? 1e9 : d;
    }
    // Of n and k some numbers are rounded otherwise here than there: scores are then off by some
    // 1e-4 of the largest, and so is e to them.
    double limit = 1e-3 + 1.5e-4 * top_score;
    bool bad = !(worst < limit);
    failed |= bad;
    printf("%d tokens, |score| up to %.1f, late %d\n  %-34s off by %.2e%s\n", tokens, top_score, late_copies,
           "largest scores", worst, bad ? " BAD" : "");
    // Maxima that differ by a rounding of k: sums and parts as if they were the reference's.
    Reals sums(stats.size() / 2), scaled(parts.size());
    for (size_t i = 0; i < stats.size() / 2; i++) {
        double by = exp(f.sums.at(2 * i) - stats[2 * i]);
        sums[i] = f.sums.at(2 * i + 1) * by;
        for (int c = 0; c < 64; c++) scaled[i * 64 + c] = f.parts.at(i * 64 + c) * by;
    }
    Numbers totals; for (size_t i = 1; i < stats.size(); i += 2) totals.push_back(stats[i]);
    compare("perceiver_1d_cross_attn: sums", sums, totals, limit, 1);
    compare("perceiver_1d_cross_attn: parts", scaled, parts, limit);
    failed |= f.sums.beyond() || f.parts.beyond();
    mixed(f, l);
    for (bool another : {true, false}) {
        Reals to(256 * 64); Halves result(256 * 64);
        top_score = 0;
        f.selves(l, n, another, to, result);
        Numbers latents = wanted_self(l, f.mixed.values(), f.qkv.values()),
                normed = norm(latents, n.weight, n.bias);
        printf("  |score| among latents up to %.1f\n", top_score);
        compare("perceiver_1d_self_attn: latents", to, latents, SINGLE);
        compare(another ? "perceiver_1d_self_attn: queries" : "perceiver_1d_self_attn: result", result,
                another ? linear(normed, 64, n.query) : normed, ROUNDED);
    }
}

/// Two layers, from the memory to its first 256 tokens, against a reference that rounds nothing.
static void layers(int tokens, float height) {
    late = true;
    Frame f(tokens, height); Layer first(height), second(height); Next between, last;
    Numbers k, v, latents = f.latents.values(), q = f.queries.values(), result;
    top_score = 0;
    Reals middle(256 * 64);
    for (int i = 0; i < 2; i++) {
        Layer& l = i ? second : first; Next& n = i ? last : between;
        f.attend(l), f.mixes(l, i ? middle : f.latents),
            f.selves(l, n, !i, i ? f.next : middle, i ? f.result : f.queries);
        f.keys_of(l, false, k, v);
        Numbers mixed = wanted_mix(l, latents, attention(q, k, v, 0, tokens));
        latents = wanted_self(l, mixed, linear(norm(mixed, l.self_weight, l.self_bias), 64, l.qkv));
        result = norm(latents, n.weight, n.bias);
        q = linear(result, 64, n.query);
    }
    printf("two layers, %d tokens, |score| up to %.1f\n", tokens, top_score);
    compare("latents", f.next, latents, 6e-3), compare("result", f.result, result, 6e-3);
}

int main(int count, char** words) {
    alone(100, 8, true);
    merged(35);
    if (!shipped_alone(count, words)) {
        for (int tokens : {16, 100, 129, 256, 1024})
            for (float height : {1.0f, 8.0f, 25.0f}) alone(tokens, height, height > 2);
        for (int splits : {1, 2, 5, 31, 32, 33, 65, 128}) merged(splits);
        alone(4096, 20, true);
        for (int tokens : {256, 1024}) for (float height : {1.0f, 8.0f}) layers(tokens, height);
    }
    puts(failed ? "latents BAD" : "latents ok");
    return failed;
}
