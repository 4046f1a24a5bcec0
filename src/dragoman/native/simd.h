// Vectors of as many 32-bit elements as a register holds, the arithmetic on them that several kernels share,
// and aligned buffers.
//
// Arrays whose length is "padded" have a multiple of LANES elements.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <new>
#include <type_traits>
#include <utility>

namespace dragoman {

#if defined(__AVX512F__)
constexpr int LANES = 16;
#elif defined(__AVX__)
constexpr int LANES = 8;
#else
constexpr int LANES = 4;
#endif

typedef int32_t Int32Vector __attribute__((vector_size(4 * LANES), may_alias));
typedef uint32_t UInt32Vector __attribute__((vector_size(4 * LANES), may_alias));
typedef float FloatVector __attribute__((vector_size(4 * LANES), may_alias));

// The smallest multiple of LANES that is not below `count`.
inline int padded(int64_t count) { return int(count + LANES - 1) / LANES * LANES; }

// Uninitialised memory that begins on a cache line. Its contents are lost when it grows.
template <class T>
class Buffer {
    T* data = nullptr;
    size_t capacity = 0;

  public:
    Buffer() = default;
    Buffer& operator=(Buffer&& other) noexcept {
        std::swap(data, other.data);
        std::swap(capacity, other.capacity);
        return *this;
    }
    Buffer(Buffer&& other) noexcept
        : data(std::exchange(other.data, nullptr)), capacity(std::exchange(other.capacity, 0)) {}
    ~Buffer() { std::free(data); }

    const T* begin() const { return data; }

    // Room for `count` elements. Throws std::bad_alloc.
    T* reserve(size_t count) {
        if (count > capacity) {
            std::free(data);
            capacity = 0;
            data = static_cast<T*>(std::aligned_alloc(64, (count * sizeof(T) + 63) / 64 * 64));
            if (!data) throw std::bad_alloc();
            capacity = count;
        }
        return data;
    }
    const T* get() const { return data; }
};

template <class To, class From>
To bit_cast(From value) {
    static_assert(sizeof(To) == sizeof(From));
    To same;
    std::memcpy(&same, &value, sizeof same);
    return same;
}

inline FloatVector load(const float* from) {
    FloatVector vector;
    std::memcpy(&vector, from, sizeof vector);
    return vector;
}

inline void store(float* to, FloatVector vector) { std::memcpy(to, &vector, sizeof vector); }

// x · y. `width` is padded.
inline float dot(const float* x, const float* y, int width) {
    FloatVector products{};
    float sum = 0;
    for (int i = 0; i < width; i += LANES) products += load(x + i) * load(y + i);
#pragma omp simd reduction(+ : sum)
    for (int lane = 0; lane < LANES; lane++) sum += products[lane];
    return sum;
}

// x += y.
inline void add(float* x, const float* y, size_t count) {
#pragma omp simd
    for (size_t i = 0; i < count; i++) x[i] += y[i];
}

// x += factor y. `width` is padded.
inline void add_scaled(float* x, const float* y, float factor, int width) {
    for (int i = 0; i < width; i += LANES) store(x + i, load(x + i) + factor * load(y + i));
}

// The maximum, -INFINITY of nothing; NaN is passed over. Written in vectors because GCC 12 does not vectorise
// such a loop.
inline float maximum(const float* x, int count) {
    FloatVector best = FloatVector{} - INFINITY;
    int i = 0;
    for (; i + LANES <= count; i += LANES) {
        const FloatVector own = load(x + i);
        best = own > best ? own : best;
    }
    float lanes[LANES];
    store(lanes, best);
    for (int step = LANES / 2; step; step /= 2)
        for (int lane = 0; lane < step; lane++) lanes[lane] = std::max(lanes[lane], lanes[lane + step]);
    for (; i < count; i++) lanes[0] = std::max(lanes[0], x[i]);
    return lanes[0];
}

// Element i of `chosen` is element at[i] of `one` and `other` side by side.
template <class Vector, class Indices>
void shuffle(const Vector& one, const Vector& other, const Indices& at, Vector& chosen) {
#ifdef __clang__  // it lacks GCC's function for indices that are not written as constants
    constexpr int N = sizeof(Vector) / sizeof(one[0]);
#pragma clang loop unroll(full)
    for (int i = 0; i < N; i++) chosen[i] = at[i] < N ? one[at[i]] : other[at[i] - N];
#else
    chosen = __builtin_shuffle(one, other, at);
#endif
}

// In every lane the reduction of all lanes by `combine`, for example their sum.
template <class Combine>
FloatVector reduce_lanes(FloatVector vector, Combine combine) {
    Int32Vector lanes;
    for (int i = 0; i < LANES; i++) lanes[i] = i;
    for (int step = LANES / 2; step; step /= 2) {
        FloatVector other;
        shuffle(vector, vector, lanes ^ step, other);
        vector = combine(vector, other);
    }
    return vector;
}

// Transpose N vectors of N elements: element j of vector i becomes element i of vector j, in log2(N) passes.
template <class Indices, class Vector, int N>
void transpose_in_registers(Vector (&rows)[N]) {
    using Index = std::remove_reference_t<decltype(std::declval<Indices&>()[0])>;
    Indices low;
    for (int i = 0; i < N; i++) low[i] = Index(i / 2 + i % 2 * N);
    Vector next[N];
    for (int pass = 1; pass < N; pass *= 2) {
        for (int i = 0; i < N / 2; i++) {
            shuffle(rows[i], rows[i + N / 2], low, next[2 * i]);
            shuffle(rows[i], rows[i + N / 2], low + Index(N / 2), next[2 * i + 1]);
        }
        std::copy_n(next, N, rows);
    }
}

// The upper half of a float32, rounded to even as hardware does. NaN stays NaN.
inline uint32_t bfloat16_bits(float value) {
    const uint32_t all = bit_cast<uint32_t>(value), quiet = (all & 0x7fffffff) > 0x7f800000 ? 0x400000 : 0;
    return ((all + (quiet ? 0 : 0x7fff + (all >> 16 & 1))) | quiet) >> 16;
}

// Adding this to a float rounds it to an integer, which then is in the last bits of the sum.
constexpr float ROUND_TO_INTEGER = 12582912.0f;
inline float power_of_two(float sum) { return bit_cast<float>((bit_cast<uint32_t>(sum) + 127) << 23); }
inline FloatVector power_of_two(FloatVector sum) {
    return bit_cast<FloatVector>((bit_cast<UInt32Vector>(sum) + 127) << 23);
}

// e^x of a float or a vector to a relative error of 2e-7: e^x = 2^n e^r. Loops over floats are vectorised. x
// is clipped to [-87, 88].
template <class Number>
__attribute__((always_inline)) inline Number exponential(Number x) {
    x = x < -87.0f ? -87.0f : x;
    x = x > 88.0f ? 88.0f : x;
    const Number sum = x * 1.44269504f + ROUND_TO_INTEGER, n = sum - ROUND_TO_INTEGER;
    const Number r = (x - n * 0.693359375f) + n * 2.12194440e-4f;
    Number p = r * 1.9875691500e-4f + 1.3981999507e-3f;
    p = (p * r + 8.3334519073e-3f) * r + 4.1665795894e-2f;
    p = (p * r + 1.6666665459e-1f) * r + 5.0000001201e-1f;
    return (p * r * r + r + 1) * power_of_two(sum);
}

}  // namespace dragoman
