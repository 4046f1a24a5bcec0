// Products in Intel's AMX: registers of 16 rows of 16 words (tiles), of which one instruction multiplies two.
//
// Oracle: the loop over vectors in gemm.h. Tested, on processors that have AMX, by all of
// tests/test_native.py that is in bfloat16 or int8, above all ::test_older_processors_have_the_same_results.
#pragma once
#include <cstdint>
#if defined(__linux__) && defined(__AVX512F__) && defined(__AMX_TILE__) && defined(__AMX_INT8__) && \
    defined(__AMX_BF16__)
#define DRAGOMAN_AMX
#include <immintrin.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace dragoman {

constexpr int TILE = 16;

#ifdef DRAGOMAN_AMX
// Whether Linux lets this process use the tile registers; it has to be asked.
inline bool amx_allowed() {
    constexpr int REQUEST = 0x1023, TILE_DATA = 18;
    static const bool allowed = syscall(SYS_arch_prctl, REQUEST, TILE_DATA) == 0;
    return allowed;
}

// Configures the tiles of this thread; the destructor restores the configuration of other libraries.
class AmxTiles {
    struct alignas(64) Configuration {
        uint8_t palette = 0, start = 0, unused[14] = {};
        uint16_t bytes[16] = {};
        uint8_t rows[16] = {};
    } before;

  public:
    AmxTiles() {
        Configuration all;
        all.palette = 1;
        for (int tile = 0; tile < 8; tile++) all.bytes[tile] = 4 * TILE, all.rows[tile] = TILE;
        _tile_storeconfig(&before);
        _tile_loadconfig(&all);
    }
    ~AmxTiles() {
        if (before.palette)
            _tile_loadconfig(&before);
        else
            _tile_release();
    }

    // sums [32][32] = x w for 32 rows of x, or for 16 unless `two`, and w [words][32]. Words hold four int8
    // or two bfloat16.
    template <bool INT8>
    void multiply(const int32_t* x, const int32_t* w, int words, bool two, int32_t* sums) const {
        asm volatile("" ::: "memory");  // GCC 12 does not model tile loads as reads of memory
        _tile_zero(0);
        _tile_zero(1);
        _tile_zero(2);
        _tile_zero(3);
        for (int k = 0; k < words; k += TILE) {
            _tile_loadd(6, w + k * 2 * TILE, 8 * TILE);
            _tile_loadd(7, w + k * 2 * TILE + TILE, 8 * TILE);
            _tile_loadd(4, x + k, 4 * words);
            multiply_add<INT8, 0>();
            if (!two) {  // few rows are bound by memory: prefetch the next panel
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
    // Tile 4 has the first 16 rows of x, tiles 0 and 1 their sums; tile 5 the other rows, tiles 2 and 3 their
    // sums; tiles 6 and 7 have w.
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
inline bool amx_allowed() { return false; }

struct AmxTiles {
    template <bool INT8>
    void multiply(const int32_t*, const int32_t*, int, bool, int32_t*) const {}
};
#endif

}  // namespace dragoman
