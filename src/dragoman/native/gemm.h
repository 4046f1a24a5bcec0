// y = x Wᵀ + b on a CPU, for weights that are packed once, in float32, bfloat16 or int8: the linear maps of
// sections 3.2.2 to 3.4.
//
// All three precisions share one loop. A word of 32 bits holds one, two or four elements. A row of x is a row
// of words; W is cut into panels of COLUMNS outputs, stored word by word. A tile of ROWS x COLUMNS sums stays
// in registers while its words are multiplied in order, so that a row of y depends on its row of x alone, to
// the last bit, whatever else is in the batch. On processors with AMX, bfloat16 and int8 use its tile
// registers.
//
// Oracle: torch.nn.Linear; in int8, PackedInt8 of native/packed_linear.py.
// Tested: tests/test_native.py::test_it_finds_what_search_in_pytorch_finds,
// ::test_forced_decoding_gives_the_log_probabilities_back, ::test_older_processors_have_the_same_results.
#pragma once
#include <cmath>
#include <type_traits>
#if defined(__AVX__)
#include <immintrin.h>
#elif defined(__wasm_simd128__)
#include <wasm_simd128.h>
#endif

#include "amx.h"
#include "simd.h"

namespace dragoman {

constexpr int ROWS = LANES == 16 ? 12 : LANES == 8 ? 6 : 4, COLUMNS = 2 * LANES;

// The formats: `pack_row` converts a row to words and returns the scale of its sums; `multiply_add`
// multiplies words.

struct Float32 {
    using Sum = FloatVector;
    static constexpr int PER_WORD = 1;

    static float pack_row(const float* row, int inputs, int32_t* out, bool) {
        std::memcpy(out, row, 4 * inputs);
        return 1;
    }
    static Sum multiply_add(Sum sum, Int32Vector x, Int32Vector w) {
        return sum + (FloatVector)x * (FloatVector)w;
    }
};

struct BFloat16 {
    using Sum = FloatVector;
    static constexpr int PER_WORD = 2;

    static float pack_row(const float* row, int inputs, int32_t* out, bool) {
        for (int i = 0; i + 1 < inputs; i += 2)
            out[i / 2] = bfloat16_bits(row[i]) | bfloat16_bits(row[i + 1]) << 16;
        if (inputs % 2) out[inputs / 2] = bfloat16_bits(row[inputs - 1]);
        return 1;
    }
    static Sum multiply_add(Sum sum, Int32Vector x, Int32Vector w) {
#ifdef __AVX512BF16__
        asm("vdpbf16ps %2, %1, %0"
            : "+v"(sum)
            : "v"(x), "v"(w));  // with the intrinsic, GCC 12 stores all sums in every iteration
        return sum;
#else
        constexpr int32_t HIGH = -65536;
        sum = sum + (FloatVector)(x << 16) * (FloatVector)(w << 16);
        return sum + (FloatVector)(x & HIGH) * (FloatVector)(w & HIGH);
#endif
    }
};

// Integers from -127 to 127 with a scale for each row of x and of W. The processor multiplies unsigned by
// signed integers: 128 is added to those of x, and 128 times the sum of W's row is subtracted in the end.
// AVX2 without VNNI adds two products in 16 bits. There x has no offset, and |x| is multiplied by the signed w:
// 2 · 127 · 127 fits. WebAssembly multiplies signed integers of 16 bits, as which they are stored there. Sums of
// integers are exact.
struct Int8 {
    using Sum = Int32Vector;
#if defined(__wasm_simd128__)
    using Element = int16_t;
#else
    using Element = int8_t;
#endif
    static constexpr int PER_WORD = 4 / sizeof(Element);
#if defined(__AVX2__) && !defined(__AVX512F__) && !defined(__AVXVNNI__)
#define ADDS_IN_16_BITS 1
#else
#define ADDS_IN_16_BITS 0
#endif
    static constexpr int OFFSET = ADDS_IN_16_BITS || PER_WORD == 2 ? 0 : 128;

    static float pack_row(const float* row, int inputs, int32_t* out, bool is_weight) {
        float largest = 1e-30f * 127, zero_or_nan = 0;  // NaN if an element is not finite
#pragma omp simd reduction(max : largest) reduction(+ : zero_or_nan)
        for (int i = 0; i < inputs; i++) {
            largest = std::max(largest, std::fabs(row[i]));
            zero_or_nan += row[i] * 0;
        }
        const float scale = largest / 127;
        using Unsigned = std::make_unsigned_t<Element>;
        auto* elements = reinterpret_cast<Unsigned*>(out);
        const int offset = is_weight ? 0 : OFFSET;
#pragma omp simd
        for (int i = 0; i < inputs; i++) elements[i] = Unsigned(int(std::nearbyint(row[i] / scale)) + offset);
        for (int i = inputs; i % PER_WORD; i++) elements[i] = 0;
        return scale + zero_or_nan;
    }
    static Sum multiply_add(Sum sum, Int32Vector x, Int32Vector w) {
#if ADDS_IN_16_BITS
        const __m256i signed_w = _mm256_sign_epi8((__m256i)w, (__m256i)x);
        const __m256i pairs = _mm256_maddubs_epi16(_mm256_abs_epi8((__m256i)x), signed_w);
        return sum + (Int32Vector)_mm256_madd_epi16(pairs, _mm256_set1_epi16(1));
#elif defined(__AVX512VNNI__)
        asm("vpdpbusd %2, %1, %0" : "+v"(sum) : "v"(x), "v"(w));  // as with bfloat16
        return sum;
#elif defined(__AVXVNNI__) && !defined(__AVX512F__)
        return (Int32Vector)_mm256_dpbusd_avx_epi32((__m256i)sum, (__m256i)x, (__m256i)w);
#elif defined(__wasm_simd128__)
        return sum + (Int32Vector)wasm_i32x4_dot_i16x8((v128_t)x, (v128_t)w);
#else
        for (int shift = 0; shift < 32; shift += 8) sum += (x >> shift & 255) * (w << (24 - shift) >> 24);
        return sum;
#endif
    }
};

// A linear map of `inputs` to `outputs` features (section 3.2.2: x W; the weight is stored as
// [outputs][inputs]).
class Linear {
    int precision = 0, words = 0;
    Buffer<int32_t> panels;      // [outputs / COLUMNS][words][COLUMNS]
    Buffer<float> scales, bias;  // of each output
    Buffer<int32_t> shift;       // OFFSET times the sum of the integers of each output's weights

    int panel_count() const { return (outputs + COLUMNS - 1) / COLUMNS; }

    template <class Kind>
    void pack(const float* weight, const float* given_bias) {
        words = (inputs + Kind::PER_WORD - 1) / Kind::PER_WORD;
        if (uses_amx<Kind>()) words = (words + TILE - 1) / TILE * TILE;
        const size_t columns = size_t(panel_count()) * COLUMNS;
        int32_t* to = panels.reserve(columns * words);
        std::memset(to, 0, 4 * columns * words);
        for (auto* numbers : {scales.reserve(columns), bias.reserve(columns)})
            std::memset(numbers, 0, 4 * columns);
        std::memset(shift.reserve(columns), 0, 4 * columns);
        Buffer<int32_t> row;
        for (int output = 0; output < outputs; output++) {
            int32_t* own = row.reserve(words);
            std::fill_n(own, words, 0);
            scales.reserve(columns)[output] =
                Kind::pack_row(weight + size_t(output) * inputs, inputs, own, true);
            if (given_bias) bias.reserve(columns)[output] = given_bias[output];
            for (int k = 0; k < words; k++)
                to[(size_t(output / COLUMNS) * words + k) * COLUMNS + output % COLUMNS] = own[k];
            if constexpr (std::is_same_v<Kind, Int8>)
                for (int i = 0; i < inputs; i++)
                    shift.reserve(columns)[output] += Kind::OFFSET * reinterpret_cast<typename Kind::Element*>(own)[i];
        }
    }

    // Tile number `tile` of the `tiles` of a panel. They share the prefetching of the next panel.
    template <class Kind, int M>
    void tile(const int32_t* x, const float* x_scales, int panel, float* y, int tile, int tiles) const {
        typename Kind::Sum sums[M][2] = {};
        const auto* w = reinterpret_cast<const Int32Vector*>(panels.get() + size_t(panel) * words * COLUMNS);
        const Int32Vector *next = w + 2 * words + 2 * words * tile / tiles,
                          *far = tiles == 1 ? next + words : next;
        for (int k = 0; k < words; k++) {
            __builtin_prefetch(next + k, 0, 2);
            __builtin_prefetch(far + k, 0, 2);
            Int32Vector left = w[2 * k], right = w[2 * k + 1];
#if defined(__AVX__) && !defined(__AVX512F__)
            asm("" : "+x"(left), "+x"(right));  // GCC would load them again for each row
#endif
            for (int m = 0; m < M; m++) {
                const Int32Vector word = Int32Vector{} + x[m * words + k];
                sums[m][0] = Kind::multiply_add(sums[m][0], word, left);
                sums[m][1] = Kind::multiply_add(sums[m][1], word, right);
            }
        }
        finish<Kind>(sums, M, x_scales, panel, y);
    }

    // y of sums: scales and bias.
    template <class Kind>
    __attribute__((always_inline)) void finish(const typename Kind::Sum (*sums)[2], int rows,
                                               const float* x_scales, int panel, float* y) const {
        const int first = panel * COLUMNS, columns = std::min(COLUMNS, outputs - first);
        for (int m = 0; m < rows; m++) {
            FloatVector done[2];
            for (int half = 0; half < 2; half++) {
                const int at = first + half * LANES;
                const auto b = *reinterpret_cast<const FloatVector*>(bias.get() + at);
                if constexpr (std::is_same_v<Kind, Int8>) {
                    const Int32Vector whole =
                        sums[m][half] - *reinterpret_cast<const Int32Vector*>(shift.get() + at);
                    const auto scale = *reinterpret_cast<const FloatVector*>(scales.get() + at);
                    done[half] = __builtin_convertvector(whole, FloatVector) * x_scales[m] * scale + b;
                } else
                    done[half] = sums[m][half] + b;
            }
            float* own = y + size_t(m) * outputs + first;
            columns == COLUMNS ? std::memcpy(own, done, sizeof done)
                               : std::memcpy(own, done, 4 * columns);  // a constant size is inlined
        }
    }

    // `tile` for `rows` rows, up to ROWS.
    template <class Kind, int M = ROWS>
    void tile_of_rows(int rows, const int32_t* x, const float* x_scales, int panel, float* y, int tile,
                      int tiles) const {
        if constexpr (M > 1)
            if (rows < M) return tile_of_rows<Kind, M - 1>(rows, x, x_scales, panel, y, tile, tiles);
        this->tile<Kind, M>(x, x_scales, panel, y, tile, tiles);
    }

    template <class Kind>
    static bool uses_amx() {
        return Kind::PER_WORD > 1 && amx_allowed();
    }

    template <class Kind>
    void multiply(const float* x, int rows, float* y) const {
        thread_local Buffer<int32_t> row_words;
        thread_local Buffer<float> row_scales;
        int32_t* xs = row_words.reserve(size_t(rows + 2 * TILE) *
                                        words);  // AMX reads beyond the last row; the results are unused
        float* scale = row_scales.reserve(rows);
        for (int m = 0; m < rows; m++) {
            int32_t* own = xs + size_t(m) * words;
            if (inputs % (TILE * Kind::PER_WORD)) std::fill_n(own, words, 0);
            scale[m] = Kind::pack_row(x + size_t(m) * inputs, inputs, own, false);
        }
        if constexpr (Kind::PER_WORD > 1)
            if (uses_amx<Kind>()) {
                const AmxTiles tiles;
                alignas(64) int32_t sums[2 * TILE][COLUMNS];
                for (int panel = 0; panel < panel_count(); panel++)
                    for (int m = 0; m < rows; m += 2 * TILE) {
                        const int32_t* w = panels.get() + size_t(panel) * words * COLUMNS;
                        tiles.multiply<Kind::PER_WORD == 4>(xs + size_t(m) * words, w, words, rows - m > TILE,
                                                            sums[0]);
                        finish<Kind>(reinterpret_cast<const typename Kind::Sum(*)[2]>(sums),
                                     std::min(2 * TILE, rows - m), scale + m, panel, y + size_t(m) * outputs);
                    }
                return;
            }
        for (int panel = 0; panel < panel_count(); panel++)
            for (int m = 0; m < rows; m += ROWS)
                tile_of_rows<Kind>(std::min(ROWS, rows - m), xs + size_t(m) * words, scale + m, panel,
                                   y + size_t(m) * outputs, m / ROWS, (rows + ROWS - 1) / ROWS);
    }

  public:
    int inputs = 0, outputs = 0;

    Linear() = default;

    // Packs a copy of `weight` [outputs][inputs] and of `given_bias` [outputs] or null. Precisions: 0
    // float32, 1 bfloat16, 2 int8.
    Linear(const float* weight, const float* given_bias, int outputs, int inputs, int precision)
        : precision(precision), inputs(inputs), outputs(outputs) {
        if (precision == 0) pack<Float32>(weight, given_bias);
        if (precision == 1) pack<BFloat16>(weight, given_bias);
        if (precision == 2) pack<Int8>(weight, given_bias);
    }

    // The map to `count` of its outputs.
    // Tested: tests/test_native.py::test_a_list_of_all_tokens_changes_nothing.
    Linear select_outputs(const int32_t* which, int count) const {
        Linear selected;
        selected.precision = precision, selected.words = words, selected.inputs = inputs,
        selected.outputs = count;
        const size_t columns = size_t(selected.panel_count()) * COLUMNS;
        const auto copy_selected = [&](const auto& from, auto& to) {
            auto* data = to.reserve(columns);
            for (size_t i = 0; i < columns; i++) data[i] = from.get()[which[std::min<size_t>(i, count - 1)]];
        };
        copy_selected(scales, selected.scales), copy_selected(bias, selected.bias),
            copy_selected(shift, selected.shift);
        int32_t* to = selected.panels.reserve(columns * words);
        for (size_t i = 0; i < columns; i++) {
            const int output = which[std::min<size_t>(i, count - 1)];
            const int32_t* from =
                panels.get() + size_t(output / COLUMNS) * words * COLUMNS + output % COLUMNS;
            int32_t* own = to + i / COLUMNS * words * COLUMNS + i % COLUMNS;
            for (int k = 0; k < words; k++) own[k * COLUMNS] = from[k * COLUMNS];
        }
        return selected;
    }

    // y [rows][outputs] of x [rows][inputs].
    void operator()(const float* x, int rows, float* y) const {
        constexpr int CHUNK = 96;  // rows of y that stay in the L2 cache while all panels pass
        for (; rows > 0; rows -= CHUNK, x += size_t(CHUNK) * inputs, y += size_t(CHUNK) * outputs) {
            const int count = std::min(CHUNK, rows);
            if (precision == 0) multiply<Float32>(x, count, y);
            if (precision == 1) multiply<BFloat16>(x, count, y);
            if (precision == 2) multiply<Int8>(x, count, y);
        }
    }
};

}  // namespace dragoman
