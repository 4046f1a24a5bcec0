// The Transformer of dragoman/model/transformer.py for translation: the encoder, and the decoder step by step.
//
// A row is a token. Rows of several sentences lie one after the other without padding: only attention knows whose they are.
#pragma once
#include <vector>

#include "gemm.h"

namespace dragoman {

// As decoder.py's Sizes.
struct Sizes {
    int32_t d_model, d_ff, heads, d_k, d_v, encoder_layers, decoder_layers;
    int32_t precision, pre_norm, activation, source_end;
    float embedding_scale, score_scale, norm_epsilon;
};

// As decoder.py's Matrix: a weight of [outputs][inputs], and a bias or null. A norm has a gain of [1][inputs].
struct Matrix {
    const float *weight, *bias;
    int32_t outputs, inputs;
};

// The width of a head is a whole number of LANES: decoder.py fills it up with zeros.
inline float dot(const float* one, const float* other, int width) {
    Floats products{};
    float sum = 0;
    for (int i = 0; i < width; i += LANES) products += load(one + i) * load(other + i);
#pragma omp simd reduction(+ : sum)
    for (int lane = 0; lane < LANES; lane++) sum += products[lane];
    return sum;
}

inline void add_times(float* x, const float* y, float factor, int width) {
    for (int i = 0; i < width; i += LANES) {
        const Floats sum = load(x + i) + factor * load(y + i);
        std::memcpy(x + i, &sum, sizeof sum);
    }
}

inline void add(float* x, const float* y, size_t count) {
#pragma omp simd
    for (size_t i = 0; i < count; i++) x[i] += y[i];
}

struct Norm {
    const float *gain, *bias;
    int width;
    float epsilon;

    void operator()(const float* x, int rows, float* y) const {
        for (; rows--; x += width, y += width) {
            float sum = 0, squares = 0;
#pragma omp simd reduction(+ : sum)
            for (int i = 0; i < width; i++) sum += x[i];
            const float mean = sum / width;
#pragma omp simd reduction(+ : squares)
            for (int i = 0; i < width; i++) squares += (x[i] - mean) * (x[i] - mean);
            const float scale = 1 / std::sqrt(squares / width + epsilon);
#pragma omp simd
            for (int i = 0; i < width; i++) y[i] = (x[i] - mean) * scale * gain[i] + bias[i];
        }
    }
};

inline void activate(float* x, size_t count, int kind) {
    if (kind == 0)
#pragma omp simd
        for (size_t i = 0; i < count; i++) x[i] = std::max(x[i], 0.0f);
    if (kind == 1)
        for (size_t i = 0; i < count; i++) x[i] *= 0.5f * (1 + std::erf(x[i] * 0.70710678f));
    if (kind == 2)
#pragma omp simd
        for (size_t i = 0; i < count; i++) x[i] /= 1 + exponential(-x[i]);
}

constexpr int AHEAD = 3;  // rows of a memory that are fetched before they are looked at: base in int8 is 1.1 times as fast on an AMD EPYC
constexpr int LINE = 16;  // numbers of a line of the caches
constexpr int TOGETHER = 8;  // rows whose queries stay within the first cache, while they look at the same

// What can be looked at: rows of the keys of all heads, then the values of all heads. `layer` is added to where each row begins.
struct Memory {
    const float* const* rows;
    int count;
    size_t layer;

    // Fetch some numbers of a row, if there is one, into the second cache, while the processor is at others.
    void fetch(int row, int first, int width) const {
        if (row >= count) return;
        for (int i = 0; i < width; i += LINE) __builtin_prefetch(rows[row] + layer + first + i, 0, 2);
    }
};

// A thread's room for numbers on their way.
struct Room {
    Buffer<float> x, normed, projected, heads, queries, out, inner, weights, logits;
    std::vector<const float*> rows;
};

class Transformer {
    std::vector<Linear> linears;
    std::vector<Norm> norms;
    const float *source_embedding, *target_embedding;

    const Linear* encoder_linears(int layer) const { return &linears[4 * layer]; }
    const Linear* decoder_linears(int layer) const { return &linears[4 * sizes.encoder_layers + 7 * layer]; }
    const Norm* encoder_norms(int layer) const { return &norms[2 * layer]; }
    const Norm* decoder_norms(int layer) const { return &norms[2 * sizes.encoder_layers + 3 * layer]; }
    const Norm* last_norms() const { return &norms[2 * sizes.encoder_layers + 3 * sizes.decoder_layers]; }

    // What a sub-layer reads, and what becomes of its output.
    const float* before(const Norm& norm, float* x, int rows, Room& room) const {
        if (!sizes.pre_norm) return x;
        float* normed = room.normed.of(size_t(rows) * sizes.d_model);
        norm(x, rows, normed);
        return normed;
    }
    void after(const Norm& norm, float* x, const float* y, int rows) const {
        add(x, y, size_t(rows) * sizes.d_model);
        if (!sizes.pre_norm) norm(x, rows, x);
    }

    // Equation 1 for the queries of all heads of some rows, `apart` from one to the next, over what they all look at, in the order in
    // which it lies in memory: several rows at once, so that what is long is read once for all of them. Outputs lie side by side.
    void look(const float* query, size_t apart, int rows, const Memory& memory, float* out, Room& room) const {
        const int heads = sizes.heads, count = memory.count, keys = heads * sizes.d_k, width = heads * sizes.d_v;
        float* weights = room.weights.of(size_t(rows) * heads * count);
        for (int n = 0; n < count; n++) {
            memory.fetch(n + AHEAD, 0, keys);
            memory.fetch(n, keys, width);
            for (int r = 0; r < rows; r++)
                for (int head = 0; head < heads; head++) {
                    const float* key = memory.rows[n] + memory.layer + head * sizes.d_k;
                    const float score = dot(query + r * apart + head * sizes.d_k, key, sizes.d_k) * sizes.score_scale;
                    weights[size_t(r * heads + head) * count + n] = score;
                }
        }
        for (int head = 0; head < rows * heads; head++) {
            float* own = weights + size_t(head) * count;
            const float largest = largest_of(own, count);
            for (int n = 0; n < count; n++) own[n] -= largest;
        }
#pragma omp simd
        for (size_t n = 0; n < size_t(rows) * heads * count; n++) weights[n] = exponential(weights[n]);
        for (int head = 0; head < rows * heads; head++) {
            float *own = weights + size_t(head) * count, sum = 0;
            for (int n = 0; n < count; n++) sum += own[n];
            for (int n = 0; n < count; n++) own[n] /= sum;
        }
        std::memset(out, 0, 4 * size_t(rows) * width);
        for (int n = 0; n < count; n++)
            for (int r = 0; r < rows; r++)
                for (int head = 0; head < heads; head++) {
                    const float* value = memory.rows[n] + memory.layer + keys + head * sizes.d_v;
                    add_times(out + size_t(r) * width + head * sizes.d_v, value, weights[size_t(r * heads + head) * count + n], sizes.d_v);
                }
    }

    void feed_forward(const Linear* linear, const Norm& norm, float* x, int rows, Room& room) const {
        float* inner = room.inner.of(size_t(rows) * sizes.d_ff);
        float* out = room.out.of(size_t(rows) * sizes.d_model);
        linear[0](before(norm, x, rows, room), rows, inner);
        activate(inner, size_t(rows) * sizes.d_ff, sizes.activation);
        linear[1](inner, rows, out);
        after(norm, x, out, rows);
    }

    void embed(const float* embedding, int token, const float* position, float* x) const {
        const float* row = embedding + size_t(token) * sizes.d_model;
#pragma omp simd
        for (int i = 0; i < sizes.d_model; i++) x[i] = row[i] * sizes.embedding_scale + position[i];
    }

  public:
    const Sizes sizes;

    // Matrices of each encoder layer: query-key-value, output, inner, outer; of each decoder layer: query-key-value, output, queries,
    // key-value, output, inner, outer; logits. Norms of each encoder layer: 2; of each decoder layer: 3; with pre_norm the encoder's and
    // the decoder's last. Embeddings and norms must outlive the model; matrices are copied.
    Transformer(const Sizes& sizes, const Matrix* matrices, int matrix_count, const Matrix* gains, int norm_count,
                const float* source_embedding, const float* target_embedding)
        : source_embedding(source_embedding), target_embedding(target_embedding), sizes(sizes) {
        linears.reserve(matrix_count);
        for (const Matrix* m = matrices; m < matrices + matrix_count; m++)
            linears.emplace_back(m->weight, m->bias, m->outputs, m->inputs, sizes.precision);
        for (const Matrix* m = gains; m < gains + norm_count; m++) norms.push_back({m->weight, m->bias, m->inputs, sizes.norm_epsilon});
    }

    int row_width() const { return sizes.heads * (sizes.d_k + sizes.d_v); }  // of keys and values

    // What the decoder looks at of a source: rows of keys and values, and how far apart those of two layers lie.
    struct Source {
        std::vector<float> numbers;
        std::vector<const float*> rows;
        size_t layer;
    };

    // Read several sources, given by where they begin in `ids`, the last one's end included.
    std::vector<Source> encode(const int32_t* ids, const std::vector<int>& begins, const float* positions, Room& room) const {
        const int rows = begins.back() - begins.front(), width = sizes.d_model, queries = sizes.heads * sizes.d_k;
        const int projected_width = queries + row_width(), value_width = sizes.heads * sizes.d_v;
        float* x = room.x.of(size_t(rows) * width);
        float* projected = room.projected.of(size_t(rows) * projected_width);
        float* heads = room.heads.of(size_t(rows) * value_width);
        float* out = room.out.of(size_t(rows) * width);
        const auto each_sentence = [&](auto&& what) {  // with its first row, and the row after its last
            for (size_t s = 0; s + 1 < begins.size(); s++) what(begins[s] - begins[0], begins[s + 1] - begins[0]);
        };
        each_sentence([&](int first, int end) {
            for (int at = first; at < end; at++)
                embed(source_embedding, ids[begins[0] + at], positions + size_t(at - first) * width, x + size_t(at) * width);
        });
        room.rows.resize(rows);
        for (int at = 0; at < rows; at++) room.rows[at] = projected + size_t(at) * projected_width + queries;
        for (int layer = 0; layer < sizes.encoder_layers; layer++) {
            const Linear* linear = encoder_linears(layer);
            const Norm* norm = encoder_norms(layer);
            linear[0](before(norm[0], x, rows, room), rows, projected);
            each_sentence([&](int first, int end) {
                const Memory seen{&room.rows[first], end - first - !sizes.source_end, 0};
                for (int at = first; at < end; at += TOGETHER) {
                    const float* query = projected + size_t(at) * projected_width;
                    look(query, projected_width, std::min(TOGETHER, end - at), seen, heads + size_t(at) * value_width, room);
                }
            });
            linear[1](heads, rows, out);
            after(norm[0], x, out, rows);
            feed_forward(linear + 2, norm[1], x, rows, room);
        }
        if (sizes.pre_norm) last_norms()[0](x, rows, x);
        std::vector<Source> sources(begins.size() - 1);
        for (int layer = 0; layer < sizes.decoder_layers; layer++) {
            decoder_linears(layer)[3](x, rows, projected);
            for (size_t s = 0; s < sources.size(); s++) {
                const float* first = projected + size_t(begins[s] - begins[0]) * row_width();
                sources[s].layer = size_t(begins[s + 1] - begins[s]) * row_width();
                sources[s].numbers.insert(sources[s].numbers.end(), first, first + sources[s].layer);
            }
        }
        for (size_t s = 0; s < sources.size(); s++)
            for (int at = 0; at < begins[s + 1] - begins[s] - !sizes.source_end; at++)
                sources[s].rows.push_back(sources[s].numbers.data() + size_t(at) * row_width());
        return sources;
    }

    // A hypothesis that is to read one more token. The last row of its `line` is where its own keys and values are written; those of
    // its layers lie `past_layer` apart.
    struct Row {
        int token, position;
        const Source* source;
        const std::vector<float*>* line;
        size_t past_layer;
    };

    // Features to logits.
    const Linear& logits() const { return linears.back(); }

    // The features that predict what follows each row, [rows][d_model]; they stay valid until `room` is used again.
    const float* decode(const std::vector<Row>& rows, const float* positions, Room& room) const {
        const int count = int(rows.size()), width = sizes.d_model, queries = sizes.heads * sizes.d_k;
        const int projected_width = queries + row_width(), value_width = sizes.heads * sizes.d_v;
        float* x = room.x.of(size_t(count) * width);
        float* projected = room.projected.of(size_t(count) * projected_width);
        float* heads = room.heads.of(size_t(count) * value_width);
        float* query = room.queries.of(size_t(count) * queries);
        float* out = room.out.of(size_t(count) * width);
        for (int r = 0; r < count; r++)
            embed(target_embedding, rows[r].token, positions + size_t(rows[r].position) * width, x + size_t(r) * width);
        for (int layer = 0; layer < sizes.decoder_layers; layer++) {
            const Linear* linear = decoder_linears(layer);
            const Norm* norm = decoder_norms(layer);
            linear[0](before(norm[0], x, count, room), count, projected);
            for (int r = 0; r < count; r++) {
                const Row& row = rows[r];
                const float* own = projected + size_t(r) * projected_width;
                std::memcpy(row.line->back() + layer * row.past_layer, own + queries, 4 * row_width());
                look(own, 0, 1, {row.line->data(), int(row.line->size()), layer * row.past_layer}, heads + size_t(r) * value_width, room);
            }
            linear[1](heads, count, out);
            after(norm[0], x, out, count);
            linear[2](before(norm[1], x, count, room), count, query);
            for (int r = 0, end = 0; r < count; r = end) {  // the hypotheses of a sentence lie side by side
                const Source& source = *rows[r].source;
                while (end < std::min(count, r + TOGETHER) && rows[end].source == &source) end++;
                const Memory seen{source.rows.data(), int(source.rows.size()), layer * source.layer};
                look(query + size_t(r) * queries, queries, end - r, seen, heads + size_t(r) * value_width, room);
            }
            linear[4](heads, count, out);
            after(norm[1], x, out, count);
            feed_forward(linear + 5, norm[2], x, count, room);
        }
        if (sizes.pre_norm) last_norms()[1](x, count, x);
        return x;
    }
};

}  // namespace dragoman
