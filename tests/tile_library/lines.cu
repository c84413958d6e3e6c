// Operations on register lines, and the random numbers. test_lines.py says what each does in NumPy's words.
#include "operations.cuh"

template <typename TR, typename TM> using moved = operands<matrix<TM>, matrix<TM>, matrix<TM>, matrix<TM>>;

// At any corner of a tensor of any extents: zeros beyond its end, nothing stored there.
template <typename TR, typename TM, int R, int C, int Run> struct line_moves : family<moved<TR, TM>> {
    kittens_device static void run(const moved<TR, TM>& g) {
        if (g.op == 0) move<reuse::again>(g);
        else move<reuse::once>(g);
    }
    template <reuse Reuse> kittens_device static void move(const moved<TR, TM>& g) {
        rl<TR, R, C, Run> x;
        load<Reuse>(x, g.a, {0, 0, g.numbers[0], g.numbers[1]});
        store<Reuse>(g.out, x, {0, 0, g.numbers[2], g.numbers[3]});
    }
};

template <typename T, int R, int C> struct line_maps : family<one_type<T>> {
    kittens_device static void run(const one_type<T>& g) {
        rl<T, R, C> x, y, z;
        load(x, g.a, {});
        if (g.op != 4) {  // its tables are half as wide
            load(y, g.b, {});
            load(z, g.c, {});
        }
        switch (g.op) {
            case 0: mul(x, x, g.value); break;
            case 1: map_lines(x, [](float a, float b, float c) { return a - b * c; }, x, y, z); break;
            case 2: turn<false>(x, y, z); break;
            case 3: turn<true>(x, y, z); break;
            case 4: pairs(x, g); break;
            case 5: {
                const float total = sum(x);
                map_lines(x, [=](float) { return total; }, x);
                break;
            }
            case 6: {  // of the first rows and runs, each element weighed
                const float total = sum(x, [=](int row, int col, float v) { return row < 2 && col < 16 ? 3 * v : v; });
                map_lines(x, [=](float) { return total; }, x);
                break;
            }
        }
        store(g.out, x, {});
    }
    // Angles from z, of which the cosine and sine would be made: (1 - z, z).
    template <bool Partner> kittens_device static void turn(rl<T, R, C>& x, rl<T, R, C>& y, const rl<T, R, C>& z) {
        rl<float, R, C> cosine, sine;
        map_lines(cosine, [](float v) { return 1.f - v; }, z);
        map_lines(sine, [](float x) { return x; }, z);
        rotate(x, y, cosine, sine);
        if constexpr (Partner) x = y;
    }
    kittens_device static void pairs(rl<T, R, C>& x, const one_type<T>& g) {
        rl<float, R, C / 2, 4> cosine, sine;
        load(cosine, g.b, {});
        load(sine, g.c, {});
        rotate_pairs(x, cosine, sine);
    }
};

// Every warp has a row; each element becomes the sum of all of them, twice over the same vectors in turn.
template <int Warps> struct block_sums : family<one_type<float>, Warps> {
    kittens_device static void run(const one_type<float>& g) {
        shared_allocator memory;
        auto& first = *memory.allocate<sv<float, 16>>("first");
        auto& second = *memory.allocate<sv<float, 16>>("second");
        rl<float, 1, 64> x;
        load(x, g.a, {0, 0, warp_index(), 0});
        const float total = block_sum<Warps>(sum(x), first);
        const float twice = block_sum<Warps>(2.f * sum(x), second);
        const float again = block_sum<Warps>(sum(x), first);
        map_lines(x, [=](float) { return again == total ? twice - total : -1.f; }, x);
        store(g.out, x, {0, 0, warp_index(), 0});
    }
};

// Halves of 16 bits, high and low in turn: four words of counter and two of key in, four words out.
struct generator : family<one_type<float>> {
    kittens_device static void run(const one_type<float>& g) {
        const float* in = g.a.row(0, 0, 0);
        const auto word = [=](int i) { return uint32_t(in[2 * i]) << 16 | uint32_t(in[2 * i + 1]); };
        const words drawn = philox({{word(0), word(1), word(2), word(3)}}, word(4), word(5));
        rl<float, 1, 8> out;
        each_run(
            [&](int, int, float* run) {
#pragma unroll
                for (int i = 0; i < 4; i++)
                    run[2 * i] = float(drawn.word[i] >> 16), run[2 * i + 1] = float(drawn.word[i] & 0xffff);
            },
            out);
        store(g.out, out, {});
    }
};

// Op 0 drops, op 1 gives the mask; numbers are low words of seed, offset and first element, and the pitch.
template <typename T, int R, int C> struct drops : family<one_type<T>> {
    kittens_device static void run(const one_type<T>& g) {
        const dropout which{uint64_t(uint32_t(g.numbers[0])) | uint64_t(7) << 32, uint64_t(uint32_t(g.numbers[1])),
                            uint32_t(g.value * 4294967296.0), 1.f / (1.f - g.value)};
        rl<T, R, C> x;
        load(x, g.a, {});
        if (g.op == 0) drop(x, x, which, uint32_t(g.numbers[2]), g.numbers[3]);
        else {
            rl<uint8_t, R, C> mask;
            keep_mask(mask, which, uint32_t(g.numbers[2]), g.numbers[3]);
            each_run(
                [](int, int, T* to, const uint8_t* from) {
#pragma unroll
                    for (int i = 0; i < 8; i++) to[i] = from_float<T>(float(from[i]));
                },
                x, mask);
        }
        store(g.out, x, {});
    }
};

static const entry table[] = {
    {"line_moves-bf16-bf16-1-256-8", start<line_moves<bf16, bf16, 1, 256, 8>>},
    {"line_moves-bf16-bf16-1-1024-8", start<line_moves<bf16, bf16, 1, 1024, 8>>},
    {"line_moves-bf16-bf16-4-64-8", start<line_moves<bf16, bf16, 4, 64, 8>>},
    {"line_moves-bf16-bf16-3-24-8", start<line_moves<bf16, bf16, 3, 24, 8>>},
    {"line_moves-fp32-fp32-4-64-8", start<line_moves<float, float, 4, 64, 8>>},
    {"line_moves-fp32-bf16-8-32-4", start<line_moves<float, bf16, 8, 32, 4>>},
    {"line_moves-bf16-fp32-2-64-4", start<line_moves<bf16, float, 2, 64, 4>>},
    {"line_moves-fp16-fp16-2-128-8", start<line_moves<half, half, 2, 128, 8>>},
    {"line_maps-bf16-4-64", start<line_maps<bf16, 4, 64>>},
    {"line_maps-fp32-1-1024", start<line_maps<float, 1, 1024>>},
    {"line_maps-fp32-3-24", start<line_maps<float, 3, 24>>},
    {"block_sums-2", start<block_sums<2>>},
    {"block_sums-8", start<block_sums<8>>},
    {"generator-fp32", start<generator>},
    {"drops-bf16-1-256", start<drops<bf16, 1, 256>>},
    {"drops-fp32-3-64", start<drops<float, 3, 64>>},
};
extern "C" __attribute__((visibility("default"))) int run_case(const char* name, const arguments* a, char* message,
                                                               int size) {
    return run_from(table, sizeof(table) / sizeof(table[0]), name, a, message, size);
}
