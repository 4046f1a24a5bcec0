// Registers for whole tiles of 16 rows of 16 words, of which one instruction multiplies two (Intel's AMX): eight times what vectors do.
#pragma once
#include <cstdint>
#if defined(__linux__) && defined(__AVX512F__) && defined(__AMX_TILE__) && defined(__AMX_INT8__) && defined(__AMX_BF16__)
#define DRAGOMAN_TILES
#include <immintrin.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace dragoman {

constexpr int TILE = 16;

#ifdef DRAGOMAN_TILES
// A process has to ask Linux for them.
inline bool tiles_allowed() {
    constexpr int REQUEST = 0x1023, TILE_DATA = 18;
    static const bool allowed = syscall(SYS_arch_prctl, REQUEST, TILE_DATA) == 0;
    return allowed;
}

// The use of tiles in this thread, for a while: other libraries find them afterwards as they left them.
class Tiles {
    struct alignas(64) Shapes {
        uint8_t palette = 0, start = 0, unused[14] = {};
        uint16_t bytes[16] = {};
        uint8_t rows[16] = {};
    } before;

  public:
    Tiles() {
        Shapes all;
        all.palette = 1;
        for (int tile = 0; tile < 8; tile++) all.bytes[tile] = 4 * TILE, all.rows[tile] = TILE;
        _tile_storeconfig(&before);
        _tile_loadconfig(&all);
    }
    ~Tiles() {
        if (before.palette)
            _tile_loadconfig(&before);
        else
            _tile_release();
    }

    // Sums [32][32] of two tiles' rows of x, or of one's, and the 32 columns of w, [words][32]. Words are of four int8 or two bfloat16.
    template <bool INT8>
    void multiply(const int32_t* x, const int32_t* w, int words, bool two, int32_t* sums) const {
        asm volatile("" ::: "memory");  // GCC 12 does not know that tiles are read from memory
        _tile_zero(0);
        _tile_zero(1);
        _tile_zero(2);
        _tile_zero(3);
        for (int k = 0; k < words; k += TILE) {
            _tile_loadd(6, w + k * 2 * TILE, 8 * TILE);
            _tile_loadd(7, w + k * 2 * TILE + TILE, 8 * TILE);
            _tile_loadd(4, x + k, 4 * words);
            multiply_add<INT8, 0>();
            if (!two) {  // few rows wait for memory: the next panel is fetched, twice as fast for int8
                const auto* next = reinterpret_cast<const char*>(w + (words + k) * 2 * TILE);
                for (int line = 0; line < 2 * TILE; line++) __builtin_prefetch(next + 64 * line, 0, 2);
                continue;
            }
            _tile_loadd(5, x + TILE * words + k, 4 * words);
            multiply_add<INT8, 1>();
        }
        _tile_stored(0, sums, 8 * TILE);
        _tile_stored(1, sums + TILE, 8 * TILE);
        _tile_stored(2, sums + TILE * 2 * TILE, 8 * TILE);
        _tile_stored(3, sums + TILE * 2 * TILE + TILE, 8 * TILE);
        asm volatile("" ::: "memory");
    }

  private:
    // The first 16 rows of x lie in tile 4 and their sums in 0 and 1, the others in 5, 2 and 3; w lies in 6 and 7.
    template <bool INT8, int SECOND>
    static void multiply_add() {
        if constexpr (INT8 && !SECOND) {
            _tile_dpbusd(0, 4, 6);
            _tile_dpbusd(1, 4, 7);
        } else if constexpr (INT8) {
            _tile_dpbusd(2, 5, 6);
            _tile_dpbusd(3, 5, 7);
        } else if constexpr (!SECOND) {
            _tile_dpbf16ps(0, 4, 6);
            _tile_dpbf16ps(1, 4, 7);
        } else {
            _tile_dpbf16ps(2, 5, 6);
            _tile_dpbf16ps(3, 5, 7);
        }
    }
};
#else
inline bool tiles_allowed() { return false; }

struct Tiles {
    template <bool INT8>
    void multiply(const int32_t*, const int32_t*, int, bool, int32_t*) const {}
};
#endif

}  // namespace dragoman
