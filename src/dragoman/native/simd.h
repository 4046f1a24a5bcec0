// Vectors of as many numbers as a register holds, and what is done to single ones.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <new>
#include <utility>

namespace dragoman {

#if defined(__AVX512F__)
constexpr int LANES = 16;
#elif defined(__AVX__)
constexpr int LANES = 8;
#else
constexpr int LANES = 4;
#endif

typedef int32_t Words __attribute__((vector_size(4 * LANES), may_alias));
typedef uint32_t UnsignedWords __attribute__((vector_size(4 * LANES), may_alias));
typedef float Floats __attribute__((vector_size(4 * LANES), may_alias));

// Memory that begins on a cache line and is not cleared; what was in it is lost when it grows.
template <class T>
class Buffer {
    T* data = nullptr;
    size_t room = 0;

  public:
    Buffer() = default;
    Buffer& operator=(Buffer&& other) noexcept {
        std::swap(data, other.data);
        std::swap(room, other.room);
        return *this;
    }
    Buffer(Buffer&& other) noexcept : data(std::exchange(other.data, nullptr)), room(std::exchange(other.room, 0)) {}
    ~Buffer() { std::free(data); }

    T* of(size_t count) {
        if (count > room) {
            std::free(data);
            room = 0;
            data = static_cast<T*>(std::aligned_alloc(64, (count * sizeof(T) + 63) / 64 * 64));
            if (!data) throw std::bad_alloc();
            room = count;
        }
        return data;
    }
    const T* get() const { return data; }
};

template <class To, class From>
To bits(From value) {
    static_assert(sizeof(To) == sizeof(From));
    To same;
    std::memcpy(&same, &value, sizeof same);
    return same;
}

inline Floats load(const float* from) {
    Floats vector;
    std::memcpy(&vector, from, sizeof vector);
    return vector;
}

inline void store(float* to, Floats vector) { std::memcpy(to, &vector, sizeof vector); }

// The largest of some numbers: in vectors, which GCC 12 does not make of such a loop by itself. What is no number is passed over.
inline float largest_of(const float* x, int count) {
    Floats best = Floats{} - INFINITY;
    int i = 0;
    for (; i + LANES <= count; i += LANES) {
        const Floats own = load(x + i);
        best = own > best ? own : best;
    }
    float lanes[LANES];
    store(lanes, best);
    for (int step = LANES / 2; step; step /= 2)
        for (int lane = 0; lane < step; lane++) lanes[lane] = std::max(lanes[lane], lanes[lane + step]);
    for (; i < count; i++) lanes[0] = std::max(lanes[0], x[i]);
    return lanes[0];
}

inline uint32_t bfloat16_bits(float value) {  // rounded to even, as hardware does; what is no number stays none
    const uint32_t whole = bits<uint32_t>(value), none = (whole & 0x7fffffff) > 0x7f800000 ? 0x400000 : 0;
    return ((whole + (none ? 0 : 0x7fff + (whole >> 16 & 1))) | none) >> 16;
}

constexpr float WHOLE = 12582912.0f;  // a number that is added to it loses its fraction, and is whole in the last bits of the sum
inline float power_of_two(float sum) { return bits<float>((bits<uint32_t>(sum) + 127) << 23); }
inline Floats power_of_two(Floats sum) { return bits<Floats>((bits<UnsignedWords>(sum) + 127) << 23); }

template <class Number>
Number exponential(Number x) {  // to 2e-7 of its value; loops over numbers become vector instructions
    x = x < -87.0f ? -87.0f : x;
    x = x > 88.0f ? 88.0f : x;
    const Number sum = x * 1.44269504f + WHOLE, n = sum - WHOLE;
    const Number r = (x - n * 0.693359375f) + n * 2.12194440e-4f;
    Number p = r * 1.9875691500e-4f + 1.3981999507e-3f;
    for (float c : {8.3334519073e-3f, 4.1665795894e-2f, 1.6666665459e-1f, 5.0000001201e-1f}) p = p * r + c;
    return (p * r * r + r + 1) * power_of_two(sum);
}

}  // namespace dragoman
