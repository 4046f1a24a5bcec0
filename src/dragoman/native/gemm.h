// y = x Wᵀ + b on a processor, for weights that are laid out once, in float32, bfloat16 or int8.
//
// All three are one loop. A word of 32 bits holds one number, two or four; a row of x is a row of words, and W is cut into panels of
// COLUMNS rows, word by word. A tile of ROWS x COLUMNS sums stays in registers while its words are multiplied in their order, so that
// a row of y depends on its row of x alone, to the last bit, whatever else is in the batch. Where the processor has registers for whole
// tiles, these take the place of vectors for bfloat16 and int8.
#pragma once
#include <cmath>
#include <type_traits>
#if defined(__AVX512F__) || defined(__AVXVNNI__)
#include <immintrin.h>
#endif

#include "amx.h"
#include "simd.h"

namespace dragoman {

constexpr int ROWS = LANES == 16 ? 12 : 4, COLUMNS = 2 * LANES;

// How numbers lie in words, and how words are multiplied. `words` writes a row and gives the scale that its sums need.

struct Float32 {
    using Sum = Floats;
    static constexpr int NUMBERS = 1;

    static float words(const float* row, int inputs, int32_t* out, bool) {
        std::memcpy(out, row, 4 * inputs);
        return 1;
    }
    static Sum multiply_add(Sum sum, Words x, Words w) { return sum + (Floats)x * (Floats)w; }
};

struct BFloat16 {
    using Sum = Floats;
    static constexpr int NUMBERS = 2;

    static float words(const float* row, int inputs, int32_t* out, bool) {
        for (int i = 0; i + 1 < inputs; i += 2) out[i / 2] = bfloat16_bits(row[i]) | bfloat16_bits(row[i + 1]) << 16;
        if (inputs % 2) out[inputs / 2] = bfloat16_bits(row[inputs - 1]);
        return 1;
    }
    static Sum multiply_add(Sum sum, Words x, Words w) {
#ifdef __AVX512BF16__
        asm("vdpbf16ps %2, %1, %0" : "+v"(sum) : "v"(x), "v"(w));  // the intrinsic makes GCC 12 store all sums at every turn
        return sum;
#else
        constexpr int32_t HIGH = -65536;
        sum = sum + (Floats)(x << 16) * (Floats)(w << 16);
        return sum + (Floats)(x & HIGH) * (Floats)(w & HIGH);
#endif
    }
};

// Integers from -127 to 127 with a scale for each row of x and of W. The processor multiplies unsigned by signed ones: 128 is added
// to those of x, and 128 times the sum of W's row is taken away in the end. Sums of integers are exact.
struct Int8 {
    using Sum = Words;
    static constexpr int NUMBERS = 4;

    static float words(const float* row, int inputs, int32_t* out, bool is_weight) {
        float largest = 1e-30f * 127, nothing = 0;  // or no number, where one of the row is none
#pragma omp simd reduction(max : largest) reduction(+ : nothing)
        for (int i = 0; i < inputs; i++) {
            largest = std::max(largest, std::fabs(row[i]));
            nothing += row[i] * 0;
        }
        const float scale = largest / 127;
        auto* bytes = reinterpret_cast<uint8_t*>(out);
        const int offset = is_weight ? 0 : 128;
#pragma omp simd
        for (int i = 0; i < inputs; i++) bytes[i] = uint8_t(int(std::nearbyint(row[i] / scale)) + offset);
        for (int i = inputs; i % 4; i++) bytes[i] = 0;
        return scale + nothing;
    }
    static Sum multiply_add(Sum sum, Words x, Words w) {
#if defined(__AVX512VNNI__)
        asm("vpdpbusd %2, %1, %0" : "+v"(sum) : "v"(x), "v"(w));  // as with bfloat16: twice as fast as the intrinsic
        return sum;
#elif defined(__AVXVNNI__) && !defined(__AVX512F__)
        return (Words)_mm256_dpbusd_avx_epi32((__m256i)sum, (__m256i)x, (__m256i)w);
#else
        for (int shift = 0; shift < 32; shift += 8) sum += (x >> shift & 255) * (w << (24 - shift) >> 24);
        return sum;
#endif
    }
};

// A linear map of `inputs` to `outputs` features.
class Linear {
    int precision = 0, words = 0;
    Buffer<int32_t> panels;     // [outputs / COLUMNS][words][COLUMNS]
    Buffer<float> scales, bias; // of each output
    Buffer<int32_t> shift;      // 128 times the sum of each output's integers

    int panel_count() const { return (outputs + COLUMNS - 1) / COLUMNS; }

    template <class Kind>
    void lay_out(const float* weight, const float* its_bias) {
        words = (inputs + Kind::NUMBERS - 1) / Kind::NUMBERS;
        if (in_tiles<Kind>()) words = (words + TILE - 1) / TILE * TILE;
        const size_t columns = size_t(panel_count()) * COLUMNS;
        int32_t* to = panels.of(columns * words);
        std::memset(to, 0, 4 * columns * words);
        for (auto* numbers : {scales.of(columns), bias.of(columns)}) std::memset(numbers, 0, 4 * columns);
        std::memset(shift.of(columns), 0, 4 * columns);
        Buffer<int32_t> row;
        for (int output = 0; output < outputs; output++) {
            int32_t* own = row.of(words);
            std::fill_n(own, words, 0);
            scales.of(columns)[output] = Kind::words(weight + size_t(output) * inputs, inputs, own, true);
            if (its_bias) bias.of(columns)[output] = its_bias[output];
            for (int k = 0; k < words; k++) to[(size_t(output / COLUMNS) * words + k) * COLUMNS + output % COLUMNS] = own[k];
            if (std::is_same_v<Kind, Int8>)
                for (int i = 0; i < inputs; i++) shift.of(columns)[output] += 128 * reinterpret_cast<int8_t*>(own)[i];
        }
    }

    // One of `tiles` tiles of a panel, which share the fetching of the next panel: half as fast again on an Intel Xeon in float32.
    template <class Kind, int M>
    void tile(const int32_t* x, const float* x_scales, int panel, float* y, int tile, int tiles) const {
        typename Kind::Sum sums[M][2] = {};
        const auto* w = reinterpret_cast<const Words*>(panels.get() + size_t(panel) * words * COLUMNS);
        const Words *next = w + 2 * words + 2 * words * tile / tiles, *far = tiles == 1 ? next + words : next;
        for (int k = 0; k < words; k++) {
            __builtin_prefetch(next + k, 0, 2);
            __builtin_prefetch(far + k, 0, 2);
            for (int m = 0; m < M; m++) {
                const Words word = Words{} + x[m * words + k];
                sums[m][0] = Kind::multiply_add(sums[m][0], word, w[2 * k]);
                sums[m][1] = Kind::multiply_add(sums[m][1], word, w[2 * k + 1]);
            }
        }
        finish<Kind>(sums, M, x_scales, panel, y);
    }

    // From sums to y.
    template <class Kind>
    __attribute__((always_inline)) void finish(const typename Kind::Sum (*sums)[2], int rows, const float* x_scales, int panel,
                                               float* y) const {
        const int first = panel * COLUMNS, columns = std::min(COLUMNS, outputs - first);
        for (int m = 0; m < rows; m++) {
            Floats done[2];
            for (int half = 0; half < 2; half++) {
                const int at = first + half * LANES;
                const auto b = *reinterpret_cast<const Floats*>(bias.get() + at);
                if constexpr (std::is_same_v<Kind, Int8>) {
                    const Words whole = sums[m][half] - *reinterpret_cast<const Words*>(shift.get() + at);
                    const auto scale = *reinterpret_cast<const Floats*>(scales.get() + at);
                    done[half] = __builtin_convertvector(whole, Floats) * x_scales[m] * scale + b;
                } else
                    done[half] = sums[m][half] + b;
            }
            float* own = y + size_t(m) * outputs + first;
            columns == COLUMNS ? std::memcpy(own, done, sizeof done) : std::memcpy(own, done, 4 * columns);  // the former is no call
        }
    }

    // A tile of as many rows as there are.
    template <class Kind, int M = ROWS>
    void tile_of(int rows, const int32_t* x, const float* x_scales, int panel, float* y, int tile, int tiles) const {
        if constexpr (M > 1)
            if (rows < M) return tile_of<Kind, M - 1>(rows, x, x_scales, panel, y, tile, tiles);
        this->tile<Kind, M>(x, x_scales, panel, y, tile, tiles);
    }

    template <class Kind>
    static bool in_tiles() {
        return Kind::NUMBERS > 1 && tiles_allowed();
    }

    template <class Kind>
    void multiply(const float* x, int rows, float* y) const {
        thread_local Buffer<int32_t> row_words;
        thread_local Buffer<float> row_scales;
        int32_t* xs = row_words.of(size_t(rows + 2 * TILE) * words);  // what tiles read beyond the last row is not used
        float* scale = row_scales.of(rows);
        for (int m = 0; m < rows; m++) {
            int32_t* own = xs + size_t(m) * words;
            if (inputs % (TILE * Kind::NUMBERS)) std::fill_n(own, words, 0);
            scale[m] = Kind::words(x + size_t(m) * inputs, inputs, own, false);
        }
        if constexpr (Kind::NUMBERS > 1)
            if (in_tiles<Kind>()) {
                const Tiles tiles;
                alignas(64) int32_t sums[2 * TILE][COLUMNS];
                for (int panel = 0; panel < panel_count(); panel++)
                    for (int m = 0; m < rows; m += 2 * TILE) {
                        const int32_t* w = panels.get() + size_t(panel) * words * COLUMNS;
                        tiles.multiply<Kind::NUMBERS == 4>(xs + size_t(m) * words, w, words, rows - m > TILE, sums[0]);
                        finish<Kind>(reinterpret_cast<const typename Kind::Sum(*)[2]>(sums), std::min(2 * TILE, rows - m), scale + m, panel,
                                     y + size_t(m) * outputs);
                    }
                return;
            }
        for (int panel = 0; panel < panel_count(); panel++)
            for (int m = 0; m < rows; m += ROWS)
                tile_of<Kind>(std::min(ROWS, rows - m), xs + size_t(m) * words, scale + m, panel, y + size_t(m) * outputs, m / ROWS,
                              (rows + ROWS - 1) / ROWS);
    }

  public:
    int inputs = 0, outputs = 0;

    Linear() = default;

    // Lays out a matrix of [outputs][inputs] and, if there is one, a bias. Precisions: 0 float32, 1 bfloat16, 2 int8.
    Linear(const float* weight, const float* its_bias, int outputs, int inputs, int precision)
        : precision(precision), inputs(inputs), outputs(outputs) {
        if (precision == 0) lay_out<Float32>(weight, its_bias);
        if (precision == 1) lay_out<BFloat16>(weight, its_bias);
        if (precision == 2) lay_out<Int8>(weight, its_bias);
    }

    // The same map to some of its outputs alone.
    Linear only(const int32_t* which, int count) const {
        Linear some;
        some.precision = precision, some.words = words, some.inputs = inputs, some.outputs = count;
        const size_t columns = size_t(some.panel_count()) * COLUMNS;
        const auto copied = [&](const auto& from, auto& to) {
            auto* data = to.of(columns);
            for (size_t i = 0; i < columns; i++) data[i] = from.get()[which[std::min<size_t>(i, count - 1)]];
        };
        copied(scales, some.scales), copied(bias, some.bias), copied(shift, some.shift);
        int32_t* to = some.panels.of(columns * words);
        for (size_t i = 0; i < columns; i++) {
            const int output = which[std::min<size_t>(i, count - 1)];
            const int32_t* from = panels.get() + size_t(output / COLUMNS) * words * COLUMNS + output % COLUMNS;
            int32_t* own = to + i / COLUMNS * words * COLUMNS + i % COLUMNS;
            for (int k = 0; k < words; k++) own[k * COLUMNS] = from[k * COLUMNS];
        }
        return some;
    }

    // y [rows][outputs] of x [rows][inputs].
    void operator()(const float* x, int rows, float* y) const {
        constexpr int CHUNK = 96;  // rows of y that stay in the second cache while all panels pass
        for (; rows > 0; rows -= CHUNK, x += size_t(CHUNK) * inputs, y += size_t(CHUNK) * outputs) {
            const int some = std::min(CHUNK, rows);
            if (precision == 0) multiply<Float32>(x, some, y);
            if (precision == 1) multiply<BFloat16>(x, some, y);
            if (precision == 2) multiply<Int8>(x, some, y);
        }
    }
};

}  // namespace dragoman
