// What stands between the matrix products of a training step, each in one pass over its numbers, and its backward; and the
// transposition that some of these products want.
//
// Shapes: N rows of D = d_model, V vocabulary; B sentences, H heads, T queries, M keys, K = d_k or d_v. Sums are in float32.
#include "simd.h"

#include <cmath>
#include <omp.h>
#ifdef __clang__
#error "clang brings an OpenMP of its own: its threads and PyTorch's would wait for each other's processors"
#endif

using namespace dragoman;

namespace {

struct BFloat16 {
    uint16_t high;
    operator float() const { return bits<float>(uint32_t(high) << 16); }
};

inline void put(float& to, float value) { to = value; }
inline void put(BFloat16& to, float value) { to.high = uint16_t(bfloat16_bits(value)); }

int whole_vectors(int64_t count) { return int(count + LANES - 1) / LANES * LANES; }

// Let threads do the work for each number below `count`, some at a time. Whether memory sufficed: no exception may leave a thread.
template <class Job>
bool for_each(void (*work)(const Job&, int64_t), const Job& job, int64_t count, int64_t some) {
    bool failed = false;
#pragma omp parallel for num_threads(job.threads) schedule(dynamic, some)
    for (int64_t number = 0; number < count; number++) try {
            work(job, number);
        } catch (const std::bad_alloc&) {
#pragma omp atomic write
            failed = true;
        }
    return !failed;
}

// 16 random bits for each of `count` numbers from number `first` on, as native/dropout.py's.
typedef int16_t Bits __attribute__((may_alias));
const Bits* random_bits(uint64_t key, int64_t first, int count, Buffer<uint64_t>& room) {
    const int64_t begin = first / 4, words = (first + count + 3) / 4 - begin;
    uint64_t* word = room.of(words);
#pragma omp simd
    for (int64_t i = 0; i < words; i++) {
        uint64_t z = key + uint64_t(begin + i) * 0x9e3779b97f4a7c15;
        z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
        z = (z ^ z >> 27) * 0x94d049bb133111eb;
        word[i] = z ^ z >> 31;
    }
    return reinterpret_cast<const Bits*>(word) + first % 4;
}

// As training_kernels.py's Drops: numbers whose random bits are below `least` are dropped, the others multiplied.
struct Drops {
    uint64_t key;
    int32_t least;
    float survivors;
};

// As training_kernels.py's.
struct Dropout {
    int64_t threads, rows, width;
    const void* x;
    void* out;
    Drops drops;
};

template <class T>
void dropout(const Dropout& job, int64_t row) {
    const int width = int(job.width);
    thread_local Buffer<uint64_t> room;
    const Drops drops = job.drops;
    const T* x = static_cast<const T*>(job.x) + row * width;
    T* out = static_cast<T*>(job.out) + row * width;
    const Bits* bits = random_bits(drops.key, row * width, width, room);
#pragma omp simd
    for (int i = 0; i < width; i++) put(out[i], x[i] * (bits[i] >= drops.least ? drops.survivors : 0.0f));
}

// As training_kernels.py's. Numbers of [N][D] are of one precision.
struct Residual {
    int64_t threads, rows, width;
    void *x, *y, *out;  // in the backward pass their gradients
    void* normal;       // out before the gain and the bias
    float* scales;      // [N]: what the norm multiplied each row by, its gain apart
    const float *gain, *bias;
    float *gain_gradient, *bias_gradient;  // [threads][D], each thread's share of the sums
    float epsilon;
    int32_t drops_any;
    Drops drops;
};

struct ResidualRoom {
    Buffer<uint64_t> bits;
    Buffer<float> row;
};

template <class T>
void residual(const Residual& job, int64_t row) {
    const int width = int(job.width);
    thread_local ResidualRoom room;
    const Drops drops = job.drops;
    const T *x = static_cast<const T*>(job.x) + row * width, *y = static_cast<const T*>(job.y) + row * width;
    T *normal = static_cast<T*>(job.normal) + row * width, *out = static_cast<T*>(job.out) + row * width;
    const float *gain = job.gain, *bias = job.bias;
    float *total = room.row.of(width), sum = 0, squares = 0;
    if (job.drops_any) {
        const Bits* bits = random_bits(drops.key, row * width, width, room.bits);
#pragma omp simd reduction(+ : sum)
        for (int i = 0; i < width; i++) sum += total[i] = x[i] + y[i] * (bits[i] >= drops.least ? drops.survivors : 0.0f);
    } else
#pragma omp simd reduction(+ : sum)
        for (int i = 0; i < width; i++) sum += total[i] = float(x[i]) + float(y[i]);
    const float mean = sum / width;
#pragma omp simd reduction(+ : squares)
    for (int i = 0; i < width; i++) squares += (total[i] - mean) * (total[i] - mean);
    const float scale = job.scales[row] = 1 / std::sqrt(squares / width + job.epsilon);
#pragma omp simd
    for (int i = 0; i < width; i++) {
        const float own = (total[i] - mean) * scale;
        put(normal[i], own);
        put(out[i], own * gain[i] + bias[i]);
    }
}

template <class T>
void residual_backward(const Residual& job, int64_t part) {
    const int width = int(job.width);
    const int64_t share = (job.rows + job.threads - 1) / job.threads;  // the same rows for each thread's sums, to the last bit, every time
    thread_local ResidualRoom room;
    const Drops drops = job.drops;
    const float* gain = job.gain;
    float *gain_gradient = job.gain_gradient + part * width, *bias_gradient = job.bias_gradient + part * width;
    for (int64_t row = part * share; row < std::min(job.rows, (part + 1) * share); row++) {
        const T *out = static_cast<const T*>(job.out) + row * width, *normal = static_cast<const T*>(job.normal) + row * width;
        T *x = static_cast<T*>(job.x) + row * width, *y = static_cast<T*>(job.y) + row * width;
        float *own = room.row.of(width), sum = 0, along = 0;
#pragma omp simd reduction(+ : sum, along)
        for (int i = 0; i < width; i++) {
            const float of_gain = out[i] * normal[i];
            gain_gradient[i] += of_gain;
            bias_gradient[i] += out[i];
            sum += own[i] = out[i] * gain[i];
            along += of_gain * gain[i];
        }
        const float mean = sum / width, slope = along / width, scale = job.scales[row];
#pragma omp simd
        for (int i = 0; i < width; i++) put(x[i], own[i] = scale * (own[i] - mean - normal[i] * slope));
        if (job.drops_any) {
            const Bits* bits = random_bits(drops.key, row * width, width, room.bits);
#pragma omp simd
            for (int i = 0; i < width; i++) put(y[i], own[i] * (bits[i] >= drops.least ? drops.survivors : 0.0f));
        } else
            std::copy_n(x, width, y);
    }
}

// As training_kernels.py's.
struct Transposed {
    int64_t threads, rows, columns, stride;
    const uint16_t* x;  // [rows][columns], of bfloat16
    uint16_t* out;      // [columns][rows], each row `stride` numbers after the one before
};

// Turn N vectors of N numbers: number j of vector i becomes number i of vector j, in log2(N) passes.
template <class Lanes, class Vector, int N>
void turn(Vector (&own)[N]) {
    Lanes low;
    for (int i = 0; i < N; i++) low[i] = i / 2 + i % 2 * N;
    Vector next[N];
    for (int times = 1; times < N; times *= 2) {
        for (int i = 0; i < N / 2; i++) {
            next[2 * i] = __builtin_shuffle(own[i], own[i + N / 2], low);
            next[2 * i + 1] = __builtin_shuffle(own[i], own[i + N / 2], low + N / 2);
        }
        std::copy_n(next, N, own);
    }
}

// A block of 16 by 16 numbers, or less at an edge.
typedef uint16_t Sixteen __attribute__((vector_size(32), may_alias));
inline void transposed_block(const uint16_t* x, int64_t of_row, uint16_t* out, int64_t of_column, int rows, int columns) {
    Sixteen own[16] = {};
    for (int row = 0; row < rows; row++) std::memcpy(&own[row], x + row * of_row, columns * sizeof *x);
    turn<Sixteen>(own);
    for (int column = 0; column < columns; column++) std::memcpy(out + column * of_column, &own[column], rows * sizeof *x);
}

// 32 rows of x from row 32 * part on: a cache line of each of its columns.
void transposed(const Transposed& job, int64_t part) {
    for (int64_t column = 0; column < job.columns; column += 16)
        for (int64_t row = 32 * part; row < std::min(job.rows, 32 * part + 32); row += 16) {
            const int64_t rows = std::min<int64_t>(16, job.rows - row), columns = std::min<int64_t>(16, job.columns - column);
            const uint16_t* x = job.x + row * job.columns + column;
            uint16_t* out = job.out + column * job.stride + row;
            if (rows == 16 && columns == 16)  // with constants the compiler writes no call of memcpy
                transposed_block(x, job.columns, out, job.stride, 16, 16);
            else
                transposed_block(x, job.columns, out, job.stride, int(rows), int(columns));
        }
}

// As training_kernels.py's.
struct FeedForward {
    int64_t threads, rows, width;
    const void* hidden;   // [N][d_ff]: max(0, x W_1 + b_1)
    void* gradient;       // [N][d_ff]: of hidden, and in the end of what is under the maximum
    float* bias_gradient; // [threads][d_ff], each thread's share of the sum
};

template <class T>
void feed_forward_backward(const FeedForward& job, int64_t part) {
    const int width = int(job.width);
    const int64_t share = (job.rows + job.threads - 1) / job.threads;
    float* sums = job.bias_gradient + part * width;
    for (int64_t row = part * share; row < std::min(job.rows, (part + 1) * share); row++) {
        const T* hidden = static_cast<const T*>(job.hidden) + row * width;
        T* gradient = static_cast<T*>(job.gradient) + row * width;
#pragma omp simd
        for (int i = 0; i < width; i++) {
            const float own = hidden[i] > 0.0f ? float(gradient[i]) : 0.0f;
            put(gradient[i], own);
            sums[i] += own;
        }
    }
}

// Where a number of each head, sentence and position begins; the numbers of a head lie side by side.
struct Strides {
    int64_t sentence, head, position;
};

// As training_kernels.py's.
struct Attention {
    int64_t threads, sentences, heads, queries, keys, key_width, value_width;
    const void *query, *key, *value;
    Strides of_query, of_key, of_value;
    const uint8_t* mask;  // of [B][T or 1][M], True where looking is allowed; null for everywhere
    int64_t mask_of_sentence, mask_of_query;
    float* weights;       // [B][H][T][M up to whole vectors]
    void* out;            // [B][T][H][d_v]; in the backward pass, its gradient
    void *query_gradient, *key_gradient, *value_gradient;  // [B][T or M][H][K]
    float scale;
    int32_t causal;
};

// c [rows][columns] of a b, where b is [inner][columns] and a number of a lies at row * of_row + k * of_k. Columns are whole vectors.
template <int ROWS>
void tile(const float* a, int of_row, int of_k, const float* b, float* c, int inner, int columns) {
    Floats sums[ROWS] = {};
    for (int k = 0; k < inner; k++) {
        const Floats own = load(b + k * columns);
        for (int row = 0; row < ROWS; row++) sums[row] += a[row * of_row + k * of_k] * own;
    }
    for (int row = 0; row < ROWS; row++) store(c + row * columns, sums[row]);
}

template <int ROWS = 8>
void tile_of(int rows, const float* a, int of_row, int of_k, const float* b, float* c, int inner, int columns) {
    if constexpr (ROWS > 1)
        if (rows < ROWS) return tile_of<ROWS - 1>(rows, a, of_row, of_k, b, c, inner, columns);
    tile<ROWS>(a, of_row, of_k, b, c, inner, columns);
}

void product(const float* a, int of_row, int of_k, const float* b, float* c, int rows, int inner, int columns) {
    for (int row = 0; row < rows; row += 8)
        for (int column = 0; column < columns; column += LANES)
            tile_of(std::min(8, rows - row), a + row * of_row, of_row, of_k, b + column, c + row * columns + column, inner, columns);
}

// Rows of a head as float32, times a factor, each filled up with zeros.
template <class T>
float* rows_of(const void* from, int64_t begin, int64_t stride, int rows, int width, float factor, Buffer<float>& room) {
    const int filled = whole_vectors(width);
    float* to = room.of(size_t(rows) * filled);
    for (int row = 0; row < rows; row++) {
        const T* own = static_cast<const T*>(from) + begin + row * stride;
        for (int i = width; i < 2 * width; i += 64 / sizeof(T)) __builtin_prefetch(own + i);  // of the next head
#pragma omp simd
        for (int i = 0; i < width; i++) to[row * filled + i] = float(own[i]) * factor;
        for (int i = width; i < filled; i++) to[row * filled + i] = 0;
    }
    return to;
}

// [columns][rows] of [rows][columns]: both are filled up to whole vectors, new rows with zeros.
float* transposed(const float* from, int rows, int columns, Buffer<float>& room) {
    const int filled = whole_vectors(rows), stride = whole_vectors(columns);
    float* to = room.of(size_t(stride) * filled);
    for (int row = 0; row < rows; row += LANES)
        for (int column = 0; column < columns; column += LANES) {
            Floats own[LANES] = {};
            for (int i = 0; i < std::min(LANES, rows - row); i++) own[i] = load(from + (row + i) * stride + column);
            turn<Words>(own);
            for (int i = 0; i < LANES; i++) store(to + (column + i) * filled + row, own[i]);
        }
    return to;
}

template <class T>
void put_rows(const float* from, void* to, int64_t begin, int64_t stride, int rows, int width) {
    const int filled = whole_vectors(width);
    for (int row = 0; row < rows; row++) {
        T* own = static_cast<T*>(to) + begin + row * stride;
#pragma omp simd
        for (int i = 0; i < width; i++) put(own[i], from[row * filled + i]);
    }
}

// In every lane the sum of all, or the largest.
template <class Join>
Floats joined(Floats vector, Join join) {
    Words lanes;
    for (int i = 0; i < LANES; i++) lanes[i] = i;
    for (int step = LANES / 2; step; step /= 2) vector = join(vector, __builtin_shuffle(vector, lanes ^ step));
    return vector;
}

// The softmax of the scores of one query, in place; zeros where it may look nowhere. What is no number stays none.
void softmax(float* scores, int columns, int visible, const uint8_t* mask) {
    if (columns == 0) return;
    constexpr float HIDDEN = -INFINITY;
    int looks = visible && !mask;  // of a bool GCC 12 makes a sum that overruns the stack
    const auto larger = [](Floats one, Floats other) { return one > other ? one : other; };
    const auto sum_of = [](Floats one, Floats other) { return one + other; };
    if (mask)
#pragma omp simd reduction(| : looks)
        for (int key = 0; key < visible; key++) {
            looks |= mask[key];
            scores[key] = mask[key] ? scores[key] : HIDDEN;
        }
    for (int key = visible; key < columns; key++) scores[key] = HIDDEN;
    Floats largest = load(scores), sum = {};
    for (int key = LANES; key < columns; key += LANES) largest = larger(largest, load(scores + key));
    largest = joined(largest, larger);
    for (int key = 0; key < columns; key += LANES) {
        const Floats own = load(scores + key), power = own == HIDDEN ? Floats{} : exponential(own - largest);
        store(scores + key, power);
        sum += power;
    }
    sum = joined(sum, sum_of);
    const Floats share = looks ? 1 / sum : Floats{};
    for (int key = 0; key < columns; key += LANES) store(scores + key, load(scores + key) * share);
}

struct Room {
    Buffer<float> query, key, value, turned, out, scores, gradient;
};

template <class T>
void attention(const Attention& job, int64_t place) {
    const int queries = int(job.queries), keys = int(job.keys), d_k = int(job.key_width), d_v = int(job.value_width);
    const int columns = whole_vectors(keys), widest = whole_vectors(d_v);
    thread_local Room room;
    const int64_t sentence = place / job.heads, head = place % job.heads;
    const auto begin = [&](const Strides& of) { return sentence * of.sentence + head * of.head; };
    const float* query = rows_of<T>(job.query, begin(job.of_query), job.of_query.position, queries, d_k, job.scale, room.query);
    const float* key = rows_of<T>(job.key, begin(job.of_key), job.of_key.position, keys, d_k, 1, room.key);
    const float* value = rows_of<T>(job.value, begin(job.of_value), job.of_value.position, keys, d_v, 1, room.value);
    float *weights = job.weights + place * queries * columns, *out = room.out.of(size_t(queries) * widest);
    product(query, whole_vectors(d_k), 1, transposed(key, keys, d_k, room.turned), weights, queries, d_k, columns);
    const uint8_t* mask = job.mask ? job.mask + sentence * job.mask_of_sentence : nullptr;
    for (int row = 0; row < queries; row++)
        softmax(weights + row * columns, columns, job.causal ? std::max(0, row + 1 + keys - queries) : keys,
                mask ? mask + row * job.mask_of_query : nullptr);
    product(weights, columns, 1, value, out, queries, keys, widest);
    put_rows<T>(out, job.out, (sentence * queries * job.heads + head) * d_v, job.heads * d_v, queries, d_v);
}

template <class T>
void attention_backward(const Attention& job, int64_t place) {
    const int queries = int(job.queries), keys = int(job.keys), d_k = int(job.key_width), d_v = int(job.value_width);
    const int columns = whole_vectors(keys), key_room = whole_vectors(d_k), value_room = whole_vectors(d_v);
    thread_local Room room;
    const int64_t sentence = place / job.heads, head = place % job.heads;
    const auto begin = [&](const Strides& of) { return sentence * of.sentence + head * of.head; };
    const auto put = [&](const float* from, void* to, int rows, int width) {
        put_rows<T>(from, to, (sentence * rows * job.heads + head) * width, job.heads * width, rows, width);
    };
    const float* query = rows_of<T>(job.query, begin(job.of_query), job.of_query.position, queries, d_k, job.scale, room.query);
    const float* key = rows_of<T>(job.key, begin(job.of_key), job.of_key.position, keys, d_k, job.scale, room.key);
    const float* value = rows_of<T>(job.value, begin(job.of_value), job.of_value.position, keys, d_v, 1, room.value);
    const float* weights = job.weights + place * queries * columns;
    const float* out = rows_of<T>(job.out, (sentence * queries * job.heads + head) * d_v, job.heads * d_v, queries, d_v, 1, room.out);
    float* scores = room.scores.of(size_t(queries) * columns);
    float* gradient = room.gradient.of(size_t(std::max(queries, keys)) * std::max(key_room, value_room));

    product(weights, 1, columns, out, gradient, keys, queries, value_room);
    put(gradient, job.value_gradient, keys, d_v);
    product(out, value_room, 1, transposed(value, keys, d_v, room.turned), scores, queries, d_v, columns);
    for (int row = 0; row < queries; row++) {
        float *own = scores + row * columns, along = 0;
        const float* weight = weights + row * columns;
#pragma omp simd reduction(+ : along)
        for (int i = 0; i < columns; i++) along += own[i] * weight[i];
#pragma omp simd
        for (int i = 0; i < columns; i++) own[i] = weight[i] * (own[i] - along);
    }
    product(scores, columns, 1, key, gradient, queries, keys, key_room);
    put(gradient, job.query_gradient, queries, d_k);
    product(scores, 1, columns, query, gradient, keys, queries, key_room);
    put(gradient, job.key_gradient, keys, d_k);
}

// As training_kernels.py's.
struct CrossEntropy {
    int64_t threads, rows, vocabulary;
    void* logits;        // [N][V]; in the backward pass they become their own gradient
    const int64_t* gold; // [N]
    float* log_sums;     // [N][2]: each row's largest logit, and the logarithm of the sum of all exponentials beside its own
    double *loss, *nll;  // [N]
    float smoothing, factor;
};

template <class T>
void cross_entropy(const CrossEntropy& job, int64_t row) {
    const int vocabulary = int(job.vocabulary);
    const T* logits = static_cast<const T*>(job.logits) + row * vocabulary;
    float largest = -INFINITY, powers = 0, sum = 0;
#pragma omp simd reduction(max : largest)
    for (int i = 0; i < vocabulary; i++) largest = std::max(largest, float(logits[i]));
#pragma omp simd reduction(+ : powers, sum)
    for (int i = 0; i < vocabulary; i++) {
        powers += exponential(logits[i] - largest);
        sum += logits[i];
    }
    const float log_powers = std::log(powers);
    job.log_sums[2 * row] = largest, job.log_sums[2 * row + 1] = log_powers;  // apart: where logits are large, their sum is rough
    const double log_sum = double(largest) + log_powers, nll = job.nll[row] = log_sum - float(logits[job.gold[row]]);
    job.loss[row] = (1 - job.smoothing) * nll + job.smoothing * (log_sum - sum / double(vocabulary));
}

template <class T>
void cross_entropy_backward(const CrossEntropy& job, int64_t row) {
    const int vocabulary = int(job.vocabulary);
    const float factor = job.factor, spread = job.smoothing / vocabulary * factor;
    T* logits = static_cast<T*>(job.logits) + row * vocabulary;
    const float largest = job.log_sums[2 * row], log_powers = job.log_sums[2 * row + 1];
    const auto likely = [&](float logit) { return exponential(logit - largest - log_powers); };
    const int64_t gold = job.gold[row];
    const float of_gold = factor * (likely(logits[gold]) - (1 - job.smoothing)) - spread;
#pragma omp simd
    for (int i = 0; i < vocabulary; i++) put(logits[i], likely(logits[i]) * factor - spread);
    put(logits[gold], of_gold);
}

}  // namespace

// Each gives false where memory does not suffice. A thread takes some of the rows, or of the heads, at a time.
#define FOR_BOTH(name, Job, count, some)                                                     \
    extern "C" bool dragoman_##name(const Job* job, int32_t bfloat16) noexcept {              \
        return for_each(bfloat16 ? name<BFloat16> : name<float>, *job, count, some);         \
    }

FOR_BOTH(dropout, Dropout, job->rows, 128)
FOR_BOTH(residual, Residual, job->rows, 128)
FOR_BOTH(residual_backward, Residual, job->threads, 1)
FOR_BOTH(feed_forward_backward, FeedForward, job->threads, 1)
FOR_BOTH(attention, Attention, job->sentences * job->heads, job->heads)
FOR_BOTH(attention_backward, Attention, job->sentences * job->heads, job->heads)
FOR_BOTH(cross_entropy, CrossEntropy, job->rows, 32)
FOR_BOTH(cross_entropy_backward, CrossEntropy, job->rows, 32)

extern "C" bool dragoman_transposed(const Transposed* job, int32_t) noexcept {
    return for_each(transposed, *job, (job->rows + 31) / 32, 4);
}
