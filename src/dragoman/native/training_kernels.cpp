// Training on a CPU: the steps between a training step's matrix products, forward and backward, each in one
// pass over memory.
//
// Called by training_kernels.py, whose structures have the same fields. Each kernel names its formula, its
// oracle in PyTorch and its test. Shapes: N rows of D = d_model, V vocabulary; B sentences, H heads, T
// queries, M keys, K = d_k or d_v. Sums are in float32.
#include <atomic>
#include <cmath>
#include <exception>

#include "simd.h"

// Of the OpenMP library that PyTorch has loaded, whatever the compiler: the threads of another one would
// compete with those of PyTorch.
extern "C" void GOMP_parallel(void (*work)(void*), void* data, unsigned threads, unsigned flags);

using namespace dragoman;

namespace {

struct BFloat16 {
    uint16_t high;
    operator float() const { return bit_cast<float>(uint32_t(high) << 16); }
};

inline void assign(float& to, float value) { to = value; }
inline void assign(BFloat16& to, float value) { to.high = uint16_t(bfloat16_bits(value)); }

// Run `work(args, i)` for each i below `count` in parallel, `chunk` at a time. False if memory does not
// suffice: an exception must not leave a thread.
template <class Arguments>
bool parallel_for(void (*work)(const Arguments&, int64_t), const Arguments& args, int64_t count,
                  int64_t chunk) {
    struct Loop {
        void (*work)(const Arguments&, int64_t);
        const Arguments& args;
        const int64_t count, chunk;
        std::atomic<int64_t> next{0};
        std::atomic<bool> failed{false};

        void run() {
            for (int64_t begin; (begin = next.fetch_add(chunk)) < count;)
                for (int64_t i = begin; i < std::min(count, begin + chunk); i++) try {
                        work(args, i);
                    } catch (const std::bad_alloc&) {
                        failed = true;
                    }
        }
    } loop{work, args, count, chunk};
    GOMP_parallel([](void* own) { static_cast<Loop*>(own)->run(); }, &loop, unsigned(args.threads), 0);
    return !loop.failed;
}

// 16 random bits for each of `count` elements from element `first` on: SplitMix64, one number for four
// elements. Oracle: random_bits of native/dropout.py. Tested:
// tests/test_kernels.py::test_kernels_draw_the_bits_that_python_draws.
typedef int16_t Bits __attribute__((may_alias));
const Bits* random_bits(uint64_t key, int64_t first, int count, Buffer<uint64_t>& buffer) {
    const int64_t begin = first / 4, words = (first + count + 3) / 4 - begin;
    uint64_t* word = buffer.reserve(words);
#pragma omp simd
    for (int64_t i = 0; i < words; i++) {
        uint64_t z = key + uint64_t(begin + i) * 0x9e3779b97f4a7c15;
        z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
        z = (z ^ z >> 27) * 0x94d049bb133111eb;
        word[i] = z ^ z >> 31;
    }
    return reinterpret_cast<const Bits*>(word) + first % 4;
}

// DropoutMaskFields of training_kernels.py: elements whose random bits are below `threshold` are dropped, the
// others scaled.
struct DropoutMask {
    uint64_t key;
    int32_t threshold;
    float scale;
};

struct DropoutArguments {
    int64_t threads, rows, width;
    const void* x;  // [N][D]
    void* out;      // [N][D]
    DropoutMask mask;
};

// out = Dropout(x) (section 5.4); its gradient is the same function of out's gradient.
// Oracle: CounterDropout of native/dropout.py. Tested:
// tests/test_kernels.py::test_kernels_draw_the_bits_that_python_draws.
template <class T>
void dropout(const DropoutArguments& args, int64_t row) {
    const int width = int(args.width);
    thread_local Buffer<uint64_t> workspace;
    const DropoutMask mask = args.mask;
    const T* x = static_cast<const T*>(args.x) + row * width;
    T* out = static_cast<T*>(args.out) + row * width;
    const Bits* bits = random_bits(mask.key, row * width, width, workspace);
#pragma omp simd
    for (int i = 0; i < width; i++) assign(out[i], x[i] * (bits[i] >= mask.threshold ? mask.scale : 0.0f));
}

// Arrays of [N][D] have one precision. In the backward pass x, y and out are their gradients.
struct ResidualArguments {
    int64_t threads, rows, width;
    void *x, *y, *out;  // [N][D]
    void* normal;       // [N][D]: the normalised rows, out before gain and bias
    float* scales;      // [N]: 1 / the standard deviation of each row
    const float *gain, *bias;
    float *gain_gradient, *bias_gradient;  // [threads][D], each thread's share of the sums
    float epsilon;
    int32_t has_mask;
    DropoutMask mask;
};

struct ResidualWorkspace {
    Buffer<uint64_t> bits;
    Buffer<float> row;
};

// out = LayerNorm(x + Dropout(y)) for one row (sections 3.1 and 5.4).
// Oracle: Residual of model/transformer.py. Tested:
// tests/test_kernels.py::test_a_residual_equals_its_equation.
template <class T>
void residual_forward(const ResidualArguments& args, int64_t row) {
    const int width = int(args.width);
    thread_local ResidualWorkspace workspace;
    const DropoutMask mask = args.mask;
    const T *x = static_cast<const T*>(args.x) + row * width,
            *y = static_cast<const T*>(args.y) + row * width;
    T *normal = static_cast<T*>(args.normal) + row * width, *out = static_cast<T*>(args.out) + row * width;
    const float *gain = args.gain, *bias = args.bias;
    float *total = workspace.row.reserve(width), sum = 0, squares = 0;
    if (args.has_mask) {
        const Bits* bits = random_bits(mask.key, row * width, width, workspace.bits);
#pragma omp simd reduction(+ : sum)
        for (int i = 0; i < width; i++)
            sum += total[i] = x[i] + y[i] * (bits[i] >= mask.threshold ? mask.scale : 0.0f);
    } else
#pragma omp simd reduction(+ : sum)
        for (int i = 0; i < width; i++) sum += total[i] = float(x[i]) + float(y[i]);
    const float mean = sum / float(width);
#pragma omp simd reduction(+ : squares)
    for (int i = 0; i < width; i++) squares += (total[i] - mean) * (total[i] - mean);
    const float scale = args.scales[row] = 1 / std::sqrt(squares / float(width) + args.epsilon);
#pragma omp simd
    for (int i = 0; i < width; i++) {
        const float own = (total[i] - mean) * scale;
        assign(normal[i], own);
        assign(out[i], own * gain[i] + bias[i]);
    }
}

// The gradients of x, y, gain and bias from out's, for the rows of one thread's share. With n = the
// normalised row, g = out's gradient times gain: x' = scale (g - mean(g) - n mean(g n)), y' = Dropout(x').
// Oracle and test: as residual_forward.
template <class T>
void residual_backward(const ResidualArguments& args, int64_t part) {
    const int width = int(args.width);
    // Fixed shares: the sums of each thread are the same, to the last bit, in every run.
    const int64_t share = (args.rows + args.threads - 1) / args.threads;
    thread_local ResidualWorkspace workspace;
    const DropoutMask mask = args.mask;
    const float* gain = args.gain;
    float *gain_gradient = args.gain_gradient + part * width,
          *bias_gradient = args.bias_gradient + part * width;
    for (int64_t row = part * share; row < std::min(args.rows, (part + 1) * share); row++) {
        const T *out = static_cast<const T*>(args.out) + row * width,
                *normal = static_cast<const T*>(args.normal) + row * width;
        T *x = static_cast<T*>(args.x) + row * width, *y = static_cast<T*>(args.y) + row * width;
        float *own = workspace.row.reserve(width), sum = 0, along = 0;
#pragma omp simd reduction(+ : sum, along)
        for (int i = 0; i < width; i++) {
            const float of_gain = out[i] * normal[i];
            gain_gradient[i] += of_gain;
            bias_gradient[i] += out[i];
            sum += own[i] = out[i] * gain[i];
            along += of_gain * gain[i];
        }
        const float mean = sum / float(width), slope = along / float(width), scale = args.scales[row];
#pragma omp simd
        for (int i = 0; i < width; i++) assign(x[i], own[i] = scale * (own[i] - mean - normal[i] * slope));
        if (args.has_mask) {
            const Bits* bits = random_bits(mask.key, row * width, width, workspace.bits);
#pragma omp simd
            for (int i = 0; i < width; i++)
                assign(y[i], own[i] * (bits[i] >= mask.threshold ? mask.scale : 0.0f));
        } else
            std::copy_n(x, width, y);
    }
}

struct TransposeArguments {
    int64_t threads, rows, columns, stride;
    const uint16_t* x;  // [rows][columns], of bfloat16
    uint16_t* out;      // [columns][rows], `stride` elements from one row to the next
};

// A block of 16 by 16 elements, or less at an edge.
typedef uint16_t Sixteen __attribute__((vector_size(32), may_alias));
inline void transpose_block(const uint16_t* x, int64_t row_stride, uint16_t* out, int64_t column_stride,
                            int rows, int columns) {
    Sixteen own[16] = {};
    for (int row = 0; row < rows; row++) std::memcpy(&own[row], x + row * row_stride, columns * sizeof *x);
    transpose_in_registers<Sixteen>(own);
    for (int column = 0; column < columns; column++)
        std::memcpy(out + column * column_stride, &own[column], rows * sizeof *x);
}

// out = xᵀ for rows 32 part to 32 part + 31 of x: a cache line of each column.
// Oracle: Tensor.t(). Tested: tests/test_kernels.py::test_rows_become_columns.
void transpose(const TransposeArguments& args, int64_t part) {
    for (int64_t column = 0; column < args.columns; column += 16)
        for (int64_t row = 32 * part; row < std::min(args.rows, 32 * part + 32); row += 16) {
            const int64_t rows = std::min<int64_t>(16, args.rows - row),
                          columns = std::min<int64_t>(16, args.columns - column);
            const uint16_t* x = args.x + row * args.columns + column;
            uint16_t* out = args.out + column * args.stride + row;
            if (rows == 16 && columns == 16)  // constant sizes are inlined
                transpose_block(x, args.columns, out, args.stride, 16, 16);
            else
                transpose_block(x, args.columns, out, args.stride, int(rows), int(columns));
        }
}

struct FeedForwardArguments {
    int64_t threads, rows, width;
    const void* hidden;    // [N][d_ff]: max(0, x W_1 + b_1)
    void* gradient;        // [N][d_ff]: of hidden; replaced by that of x W_1 + b_1
    float* bias_gradient;  // [threads][d_ff]: each thread's share of the sum
};

// The gradient through max(0, x W_1 + b_1) (section 3.3, equation 2), and its sum over rows, the gradient of
// b_1. Oracle: FeedForward of model/transformer.py. Tested:
// tests/test_kernels.py::test_a_feed_forward_equals_its_equation.
template <class T>
void feed_forward_backward(const FeedForwardArguments& args, int64_t part) {
    const int width = int(args.width);
    const int64_t share = (args.rows + args.threads - 1) / args.threads;
    float* sums = args.bias_gradient + part * width;
    for (int64_t row = part * share; row < std::min(args.rows, (part + 1) * share); row++) {
        const T* hidden = static_cast<const T*>(args.hidden) + row * width;
        T* gradient = static_cast<T*>(args.gradient) + row * width;
#pragma omp simd
        for (int i = 0; i < width; i++) {
            const float own = hidden[i] > 0.0f ? float(gradient[i]) : 0.0f;
            assign(gradient[i], own);
            sums[i] += own;
        }
    }
}

// Distances in elements; the elements of a head at one position are contiguous.
struct Strides {
    int64_t sentence, head, position;
};

struct AttentionArguments {
    int64_t threads, sentences, heads, queries, keys, key_width, value_width;
    const void *query, *key, *value;
    Strides query_strides, key_strides, value_strides;
    const uint8_t* mask;  // [B][T or 1][M], True where attending is allowed; null if everywhere
    int64_t mask_sentence_stride, mask_query_stride;
    float* weights;  // [B][H][T][M, padded]: the softmax
    void* out;       // [B][T][H][d_v]; in the backward pass, its gradient
    void *query_gradient, *key_gradient, *value_gradient;  // [B][T or M][H][K]
    float scale;
    int32_t causal;
};

// c [rows][columns] = a b, for b [inner][columns] and a's element (row, k) at row * row_stride + k *
// k_stride. `columns` is padded.
template <int ROWS>
void tile(const float* a, int row_stride, int k_stride, const float* b, float* c, int inner, int columns) {
    FloatVector sums[ROWS] = {};
    for (int k = 0; k < inner; k++) {
        const FloatVector own = load(b + k * columns);
        for (int row = 0; row < ROWS; row++) sums[row] += a[row * row_stride + k * k_stride] * own;
    }
    for (int row = 0; row < ROWS; row++) store(c + row * columns, sums[row]);
}

// `tile` for `rows` rows, up to ROWS.
template <int ROWS = 8>
void tile_of_rows(int rows, const float* a, int row_stride, int k_stride, const float* b, float* c, int inner,
                  int columns) {
    if constexpr (ROWS > 1)
        if (rows < ROWS) return tile_of_rows<ROWS - 1>(rows, a, row_stride, k_stride, b, c, inner, columns);
    tile<ROWS>(a, row_stride, k_stride, b, c, inner, columns);
}

// As `tile`, for any number of rows.
void multiply(const float* a, int row_stride, int k_stride, const float* b, float* c, int rows, int inner,
              int columns) {
    for (int row = 0; row < rows; row += 8)
        for (int column = 0; column < columns; column += LANES)
            tile_of_rows(std::min(8, rows - row), a + row * row_stride, row_stride, k_stride, b + column,
                         c + row * columns + column, inner, columns);
}

// Rows of a head as float32, times a factor, each padded with zeros.
template <class T>
float* load_rows(const void* from, int64_t begin, int64_t stride, int rows, int width, float factor,
                 Buffer<float>& buffer) {
    const int filled = padded(width);
    float* to = buffer.reserve(size_t(rows) * filled);
    for (int row = 0; row < rows; row++) {
        const T* own = static_cast<const T*>(from) + begin + row * stride;
        for (int i = width; i < 2 * width; i += 64 / sizeof(T))
            __builtin_prefetch(own + i);  // of the next head
#pragma omp simd
        for (int i = 0; i < width; i++) to[row * filled + i] = float(own[i]) * factor;
        for (int i = width; i < filled; i++) to[row * filled + i] = 0;
    }
    return to;
}

// `from` [rows][columns, padded] as [columns][rows, padded], padded with zeros.
float* transpose(const float* from, int rows, int columns, Buffer<float>& buffer) {
    const int filled = padded(rows), stride = padded(columns);
    float* to = buffer.reserve(size_t(stride) * filled);
    for (int row = 0; row < rows; row += LANES)
        for (int column = 0; column < columns; column += LANES) {
            FloatVector own[LANES] = {};
            for (int i = 0; i < std::min(LANES, rows - row); i++)
                own[i] = load(from + (row + i) * stride + column);
            transpose_in_registers<Int32Vector>(own);
            for (int i = 0; i < LANES; i++) store(to + (column + i) * filled + row, own[i]);
        }
    return to;
}

// The inverse of load_rows.
template <class T>
void store_rows(const float* from, void* to, int64_t begin, int64_t stride, int rows, int width) {
    const int filled = padded(width);
    for (int row = 0; row < rows; row++) {
        T* own = static_cast<T*>(to) + begin + row * stride;
#pragma omp simd
        for (int i = 0; i < width; i++) assign(own[i], from[row * filled + i]);
    }
}

// The softmax of one query's scores, in place; zeros if it may attend to no key. NaN stays NaN.
// Tested:
// tests/test_kernels.py::test_attention_to_one_key_is_its_value_and_nan_if_its_score_is_nan,
// ::test_a_query_without_allowed_keys_gets_zeros.
void softmax(float* scores, int columns, int visible, const uint8_t* mask) {
    if (columns == 0) return;
    constexpr float HIDDEN = -INFINITY;
    int any_visible = visible && !mask;  // not bool: GCC 12 overruns the stack in the reduction of a bool
    const auto larger = [](FloatVector one, FloatVector other) { return one > other ? one : other; };
    const auto sum_of = [](FloatVector one, FloatVector other) { return one + other; };
    if (mask)
#pragma omp simd reduction(| : any_visible)
        for (int key = 0; key < visible; key++) {
            any_visible |= mask[key];
            scores[key] = mask[key] ? scores[key] : HIDDEN;
        }
    for (int key = visible; key < columns; key++) scores[key] = HIDDEN;
    FloatVector largest = load(scores), sum = {};
    for (int key = LANES; key < columns; key += LANES) largest = larger(largest, load(scores + key));
    largest = reduce_lanes(largest, larger);
    for (int key = 0; key < columns; key += LANES) {
        const FloatVector own = load(scores + key),
                          power = own == HIDDEN ? FloatVector{} : exponential(own - largest);
        store(scores + key, power);
        sum += power;
    }
    sum = reduce_lanes(sum, sum_of);
    const FloatVector share = any_visible ? 1 / sum : FloatVector{};
    for (int key = 0; key < columns; key += LANES) store(scores + key, load(scores + key) * share);
}

struct AttentionWorkspace {
    Buffer<float> query, key, value, transposed, out, scores, gradient;
};

// softmax(Q Kᵀ / √d_k) V for one head of one sentence (section 3.2.1, equation 1), masked.
// Oracle: attention of model/attention.py. Tested: tests/test_kernels.py::test_attention_equals_its_equation.
template <class T>
void attention_forward(const AttentionArguments& args, int64_t index) {
    const int queries = int(args.queries), keys = int(args.keys), d_k = int(args.key_width),
              d_v = int(args.value_width);
    const int columns = padded(keys), padded_d_v = padded(d_v);
    thread_local AttentionWorkspace workspace;
    const int64_t sentence = index / args.heads, head = index % args.heads;
    const auto begin = [&](const Strides& of) { return sentence * of.sentence + head * of.head; };
    const float* query = load_rows<T>(args.query, begin(args.query_strides), args.query_strides.position,
                                      queries, d_k, args.scale, workspace.query);
    const float* key = load_rows<T>(args.key, begin(args.key_strides), args.key_strides.position, keys, d_k,
                                    1, workspace.key);
    const float* value = load_rows<T>(args.value, begin(args.value_strides), args.value_strides.position,
                                      keys, d_v, 1, workspace.value);
    float *weights = args.weights + index * queries * columns,
          *out = workspace.out.reserve(size_t(queries) * padded_d_v);
    multiply(query, padded(d_k), 1, transpose(key, keys, d_k, workspace.transposed), weights, queries, d_k,
             columns);
    const uint8_t* mask = args.mask ? args.mask + sentence * args.mask_sentence_stride : nullptr;
    for (int row = 0; row < queries; row++)
        softmax(weights + row * columns, columns, args.causal ? std::max(0, row + 1 + keys - queries) : keys,
                mask ? mask + row * args.mask_query_stride : nullptr);
    multiply(weights, columns, 1, value, out, queries, keys, padded_d_v);
    store_rows<T>(out, args.out, (sentence * queries * args.heads + head) * d_v, args.heads * d_v, queries,
                  d_v);
}

// The gradients of Q, K and V from out's. With P the softmax and G = out' Vᵀ: V' = Pᵀ out', S' = P (G -
// rowsum(G P)), Q' = S' K / √d_k, K' = S'ᵀ Q / √d_k. Oracle and test: as attention_forward.
template <class T>
void attention_backward(const AttentionArguments& args, int64_t index) {
    const int queries = int(args.queries), keys = int(args.keys), d_k = int(args.key_width),
              d_v = int(args.value_width);
    const int columns = padded(keys), padded_d_k = padded(d_k), padded_d_v = padded(d_v);
    thread_local AttentionWorkspace workspace;
    const int64_t sentence = index / args.heads, head = index % args.heads;
    const auto begin = [&](const Strides& of) { return sentence * of.sentence + head * of.head; };
    const auto put = [&](const float* from, void* to, int rows, int width) {
        store_rows<T>(from, to, (sentence * rows * args.heads + head) * width, args.heads * width, rows,
                      width);
    };
    const float* query = load_rows<T>(args.query, begin(args.query_strides), args.query_strides.position,
                                      queries, d_k, args.scale, workspace.query);
    const float* key = load_rows<T>(args.key, begin(args.key_strides), args.key_strides.position, keys, d_k,
                                    args.scale, workspace.key);
    const float* value = load_rows<T>(args.value, begin(args.value_strides), args.value_strides.position,
                                      keys, d_v, 1, workspace.value);
    const float* weights = args.weights + index * queries * columns;
    const float* out = load_rows<T>(args.out, (sentence * queries * args.heads + head) * d_v,
                                    args.heads * d_v, queries, d_v, 1, workspace.out);
    float* scores = workspace.scores.reserve(size_t(queries) * columns);
    float* gradient =
        workspace.gradient.reserve(size_t(std::max(queries, keys)) * std::max(padded_d_k, padded_d_v));

    multiply(weights, 1, columns, out, gradient, keys, queries, padded_d_v);
    put(gradient, args.value_gradient, keys, d_v);
    multiply(out, padded_d_v, 1, transpose(value, keys, d_v, workspace.transposed), scores, queries, d_v,
             columns);
    for (int row = 0; row < queries; row++) {
        float *own = scores + row * columns, along = 0;
        const float* weight = weights + row * columns;
#pragma omp simd reduction(+ : along)
        for (int i = 0; i < columns; i++) along += own[i] * weight[i];
#pragma omp simd
        for (int i = 0; i < columns; i++) own[i] = weight[i] * (own[i] - along);
    }
    multiply(scores, columns, 1, key, gradient, queries, keys, padded_d_k);
    put(gradient, args.query_gradient, queries, d_k);
    multiply(scores, 1, columns, query, gradient, keys, queries, padded_d_k);
    put(gradient, args.key_gradient, keys, d_k);
}

struct CrossEntropyArguments {
    int64_t threads, rows, vocabulary;
    void* logits;         // [N][V]; replaced by their gradient in the backward pass
    const int64_t* gold;  // [N]
    float* log_sums;      // [N][2]: each row's largest logit m, and log Σ exp(logit - m)
    double *loss, *nll;   // [N]
    float smoothing, factor;
};

// The label-smoothed loss (section 5.4) and the negative log-likelihood of a row's gold token, in nats:
// nll = log Σ exp(logits) - logits[gold], loss = (1 - ε) nll + ε (log Σ exp(logits) - mean(logits)).
// Oracle: LabelSmoothedCrossEntropy of model/loss.py. Tested:
// tests/test_kernels.py::test_the_loss_equals_pytorchs,
// ::test_what_all_logits_have_in_common_changes_no_gradient.
template <class T>
void cross_entropy_forward(const CrossEntropyArguments& args, int64_t row) {
    const int vocabulary = int(args.vocabulary);
    const T* logits = static_cast<const T*>(args.logits) + row * vocabulary;
    float largest = -INFINITY, exp_sum = 0, sum = 0;
#pragma omp simd reduction(max : largest)
    for (int i = 0; i < vocabulary; i++) largest = std::max(largest, float(logits[i]));
#pragma omp simd reduction(+ : exp_sum, sum)
    for (int i = 0; i < vocabulary; i++) {
        exp_sum += exponential(logits[i] - largest);
        sum += logits[i];
    }
    const float log_exp_sum = std::log(exp_sum);
    // Stored separately: if logits are large, their float32 sum is imprecise.
    args.log_sums[2 * row] = largest, args.log_sums[2 * row + 1] = log_exp_sum;
    const double log_sum = double(largest) + log_exp_sum,
                 nll = args.nll[row] = log_sum - float(logits[args.gold[row]]);
    args.loss[row] = (1 - args.smoothing) * nll + args.smoothing * (log_sum - sum / double(vocabulary));
}

// The gradient of the loss: factor (softmax(logits) - (1 - ε) onehot(gold) - ε / V), in the place of the
// logits. Oracle and test: as cross_entropy_forward.
template <class T>
void cross_entropy_backward(const CrossEntropyArguments& args, int64_t row) {
    const int vocabulary = int(args.vocabulary);
    const float factor = args.factor, spread = args.smoothing / float(vocabulary) * factor;
    T* logits = static_cast<T*>(args.logits) + row * vocabulary;
    const float largest = args.log_sums[2 * row], log_exp_sum = args.log_sums[2 * row + 1];
    const auto probability = [&](float logit) { return exponential(logit - largest - log_exp_sum); };
    const int64_t gold = args.gold[row];
    const float of_gold = factor * (probability(logits[gold]) - (1 - args.smoothing)) - spread;
#pragma omp simd
    for (int i = 0; i < vocabulary; i++) assign(logits[i], probability(logits[i]) * factor - spread);
    assign(logits[gold], of_gold);
}

// Statuses of the functions below, as in training_kernels.py.
enum Status : int32_t { OK = 0, OUT_OF_MEMORY = 1, WRONG_SIZE = 2 };

}  // namespace

// The functions that training_kernels.py calls. `size` is the caller's size of the structure; tensors are of
// bfloat16 or of float32. Each returns a Status. Tested:
// tests/test_kernels.py::test_structures_of_another_size_are_refused,
// ::test_a_lack_of_memory_is_told_as_pytorch_tells_it.
extern "C" {

int32_t dragoman_dropout(const DropoutArguments* args, size_t size, bool bfloat16) noexcept {
    if (size != sizeof *args) return WRONG_SIZE;
    const bool done = parallel_for(bfloat16 ? dropout<BFloat16> : dropout<float>, *args, args->rows, 128);
    return done ? OK : OUT_OF_MEMORY;
}

int32_t dragoman_residual_forward(const ResidualArguments* args, size_t size, bool bfloat16) noexcept {
    if (size != sizeof *args) return WRONG_SIZE;
    const bool done =
        parallel_for(bfloat16 ? residual_forward<BFloat16> : residual_forward<float>, *args, args->rows, 128);
    return done ? OK : OUT_OF_MEMORY;
}

int32_t dragoman_residual_backward(const ResidualArguments* args, size_t size, bool bfloat16) noexcept {
    if (size != sizeof *args) return WRONG_SIZE;
    const bool done = parallel_for(bfloat16 ? residual_backward<BFloat16> : residual_backward<float>, *args,
                                   args->threads, 1);
    return done ? OK : OUT_OF_MEMORY;
}

int32_t dragoman_transpose(const TransposeArguments* args, size_t size) noexcept {
    if (size != sizeof *args) return WRONG_SIZE;
    return parallel_for<TransposeArguments>(transpose, *args, (args->rows + 31) / 32, 4) ? OK : OUT_OF_MEMORY;
}

int32_t dragoman_feed_forward_backward(const FeedForwardArguments* args, size_t size,
                                       bool bfloat16) noexcept {
    if (size != sizeof *args) return WRONG_SIZE;
    const bool done = parallel_for(bfloat16 ? feed_forward_backward<BFloat16> : feed_forward_backward<float>,
                                   *args, args->threads, 1);
    return done ? OK : OUT_OF_MEMORY;
}

int32_t dragoman_attention_forward(const AttentionArguments* args, size_t size, bool bfloat16) noexcept {
    if (size != sizeof *args) return WRONG_SIZE;
    const bool done = parallel_for(bfloat16 ? attention_forward<BFloat16> : attention_forward<float>, *args,
                                   args->sentences * args->heads, args->heads);
    return done ? OK : OUT_OF_MEMORY;
}

int32_t dragoman_attention_backward(const AttentionArguments* args, size_t size, bool bfloat16) noexcept {
    if (size != sizeof *args) return WRONG_SIZE;
    const bool done = parallel_for(bfloat16 ? attention_backward<BFloat16> : attention_backward<float>, *args,
                                   args->sentences * args->heads, args->heads);
    return done ? OK : OUT_OF_MEMORY;
}

int32_t dragoman_cross_entropy_forward(const CrossEntropyArguments* args, size_t size,
                                       bool bfloat16) noexcept {
    if (size != sizeof *args) return WRONG_SIZE;
    const bool done = parallel_for(bfloat16 ? cross_entropy_forward<BFloat16> : cross_entropy_forward<float>,
                                   *args, args->rows, 32);
    return done ? OK : OUT_OF_MEMORY;
}

int32_t dragoman_cross_entropy_backward(const CrossEntropyArguments* args, size_t size,
                                        bool bfloat16) noexcept {
    if (size != sizeof *args) return WRONG_SIZE;
    const bool done = parallel_for(
        bfloat16 ? cross_entropy_backward<BFloat16> : cross_entropy_backward<float>, *args, args->rows, 32);
    return done ? OK : OUT_OF_MEMORY;
}

// Sizes that training_kernels.py compares with its own when it loads the library.
size_t dragoman_sizeof_dropout_arguments() { return sizeof(DropoutArguments); }
size_t dragoman_sizeof_residual_arguments() { return sizeof(ResidualArguments); }
size_t dragoman_sizeof_transpose_arguments() { return sizeof(TransposeArguments); }
size_t dragoman_sizeof_feed_forward_arguments() { return sizeof(FeedForwardArguments); }
size_t dragoman_sizeof_attention_arguments() { return sizeof(AttentionArguments); }
size_t dragoman_sizeof_cross_entropy_arguments() { return sizeof(CrossEntropyArguments); }
}
