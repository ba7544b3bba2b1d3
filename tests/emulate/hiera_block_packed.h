// The stream of units that cuda/hiera_block.cu reads, as crates/kernels/src/hiera/fused/packed.rs makes it.
#pragma once
/// A weight [rows, depth] f16 and its bias.
struct Layer {
    int rows, depth; Halves weight; Reals bias;
    Layer(int rows, int depth)
        : rows(rows), depth(depth), weight((size_t)rows * depth, 1 / sqrtf(depth)), bias(rows, 0.3) {}
};
/// Index of a step: neighbours of a lane are four columns.
static int by_four(int at) { return at % 8 / 2 * 4 + at / 8 * 2 + at % 2; }
struct Stream {
    std::vector<unsigned char> bytes;
    /// A step of 16 rows: `row` and `column` say which, -1 for none.
    template <class R, class C> void fragment(Layer& l, R row, C column) {
        for (int lane = 0; lane < 32; lane++)
            for (int word = 0; word < 4; word++)
                for (int e = 0; e < 2; e++) {
                    const int r = row(word / 2 * 8 + lane / 4), c = column(word % 2 * 8 + lane % 4 * 2 + e);
                    const f16 x = r < 0 || c < 0 ? (f16)0 : l.weight[(size_t)r * l.depth + c];
                    bytes.insert(bytes.end(), (unsigned char*)&x, (unsigned char*)(&x + 1));
                }
    }
    void biases(Layer& l, int first, int begin, int end) {
        for (int n = 0; n < 16; n++) {
            const float x = first >= begin && first + n < end ? l.bias[first + n] : 0;
            bytes.insert(bytes.end(), (unsigned char*)&x, (unsigned char*)(&x + 1));
        }
    }
    /// 16 rows, those before `end`, of all columns, which come from a norm.
    void rows_of(Layer& l, int first, int end) {
        for (int step = 0; step < l.depth / 16; step++)
            fragment(
                l, [=](int n) { return first + n < end ? first + n : -1; },
                [=](int k) { return step * 16 + by_four(k); });
        biases(l, first, 0, end);
    }
    /// 16 columns, those before `end`, of all rows, which go to the residual.
    void columns_of(Layer& l, int first, int end) {
        for (int tile = 0; tile < l.rows / 16; tile++)
            fragment(
                l, [=](int n) { return tile * 16 + by_four(n); },
                [=](int k) { return first + k < end ? first + k : -1; });
        biases(l, -1, 0, 0);
    }
};
