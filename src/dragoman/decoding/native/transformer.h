// The Transformer of dragoman/model/transformer.py for translation: the encoder, and the decoder step by step.
//
// A row is a token. Rows of several sentences lie one after the other without padding: only attention knows whose they are.
#pragma once
#include <vector>

#include "product.h"

namespace dragoman {

// As engine.py's Sizes.
struct Sizes {
    int32_t d_model, d_ff, heads, d_k, d_v, encoder_layers, decoder_layers, source_vocabulary, target_vocabulary;
    int32_t precision, pre_norm, activation, source_end;
    float embedding_scale, norm_epsilon;
};

// As engine.py's Matrix: a weight of [outputs][inputs], and a bias or null. A norm has a gain of [1][inputs].
struct Matrix {
    const float *weight, *bias;
    int32_t outputs, inputs;
};

inline float exponential(float x) {  // to 2e-7 of its value; loops over it become vector instructions
    x = std::max(x, -87.0f);
    const float n = (x * 1.44269504f + 12582912.0f) - 12582912.0f;
    const float r = (x - n * 0.693359375f) + n * 2.12194440e-4f;
    float p = 1.9875691500e-4f;
    for (float c : {1.3981999507e-3f, 8.3334519073e-3f, 4.1665795894e-2f, 1.6666665459e-1f, 5.0000001201e-1f}) p = p * r + c;
    return (p * r * r + r + 1) * bits<float>((int32_t(n) + 127) << 23);
}

inline float dot(const float* one, const float* other, int width) {
    float sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int i = 0; i < width; i++) sum += one[i] * other[i];
    return sum;
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

// What can be looked at: row n is `places[n]`, or n where there are none; a row has the keys of all heads, then the values.
struct Memory {
    const float* rows;
    const int32_t* places;
    int count;
};

// A thread's room for numbers on their way.
struct Room {
    Buffer<float> x, normed, projected, heads, queries, out, inner, scores, logits;
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

    // Equation 1 for one query of all heads.
    void look(const float* query, const Memory& memory, float* out, Room& room) const {
        const int keys = sizes.heads * sizes.d_k, row = keys + sizes.heads * sizes.d_v;
        float* weights = room.scores.of(memory.count);
        std::memset(out, 0, 4 * size_t(sizes.heads) * sizes.d_v);
        for (int head = 0; head < sizes.heads && memory.count; head++, query += sizes.d_k, out += sizes.d_v) {
            const auto place = [&](int n) { return memory.rows + size_t(memory.places ? memory.places[n] : n) * row; };
            const float root = 1 / std::sqrt(float(sizes.d_k));
            float largest = -INFINITY, sum = 0;
            for (int n = 0; n < memory.count; n++) {
                weights[n] = dot(query, place(n) + head * sizes.d_k, sizes.d_k) * root;
                largest = std::max(largest, weights[n]);
            }
#pragma omp simd reduction(+ : sum)
            for (int n = 0; n < memory.count; n++) sum += weights[n] = exponential(weights[n] - largest);
            for (int n = 0; n < memory.count; n++) {
                const float *value = place(n) + keys + head * sizes.d_v, weight = weights[n] / sum;
#pragma omp simd
                for (int i = 0; i < sizes.d_v; i++) out[i] += weight * value[i];
            }
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

    // The keys and values of a source that a decoder layer looks at, layer by layer.
    struct Source {
        int length;
        std::vector<std::vector<float>> rows;
    };

    // Read several sources, given by where they begin in `ids`, the last one's end included.
    std::vector<Source> encode(const int32_t* ids, const std::vector<int>& begins, const float* positions, Room& room) const {
        const int rows = begins.back() - begins.front(), width = sizes.d_model, queries = sizes.heads * sizes.d_k;
        const auto each_row = [&](auto&& what) {  // with its row's number, its sentence's first row, and its sentence's end
            for (size_t s = 0; s + 1 < begins.size(); s++)
                for (int at = begins[s]; at < begins[s + 1]; at++) what(at - begins[0], begins[s] - begins[0], begins[s + 1] - begins[0]);
        };
        float* x = room.x.of(size_t(rows) * width);
        each_row([&](int at, int first, int) {
            embed(source_embedding, ids[begins[0] + at], positions + size_t(at - first) * width, x + size_t(at) * width);
        });
        const int projected_width = queries + row_width(), value_width = sizes.heads * sizes.d_v;
        for (int layer = 0; layer < sizes.encoder_layers; layer++) {
            const Linear* linear = encoder_linears(layer);
            const Norm* norm = encoder_norms(layer);
            float* projected = room.projected.of(size_t(rows) * projected_width);
            float* memory = room.queries.of(size_t(rows) * row_width());
            float* heads = room.heads.of(size_t(rows) * value_width);
            linear[0](before(norm[0], x, rows, room), rows, projected);
            for (int at = 0; at < rows; at++)
                std::memcpy(memory + size_t(at) * row_width(), projected + size_t(at) * projected_width + queries, 4 * row_width());
            each_row([&](int at, int first, int end) {
                const Memory seen{memory + size_t(first) * row_width(), nullptr, end - first - !sizes.source_end};
                look(projected + size_t(at) * projected_width, seen, heads + size_t(at) * value_width, room);
            });
            float* out = room.out.of(size_t(rows) * width);
            linear[1](heads, rows, out);
            after(norm[0], x, out, rows);
            feed_forward(linear + 2, norm[1], x, rows, room);
        }
        if (sizes.pre_norm) last_norms()[0](x, rows, x);
        std::vector<Source> sources(begins.size() - 1);
        for (int layer = 0; layer < sizes.decoder_layers; layer++) {
            float* memory = room.projected.of(size_t(rows) * row_width());
            decoder_linears(layer)[3](x, rows, memory);
            for (size_t s = 0; s < sources.size(); s++) {
                sources[s].length = begins[s + 1] - begins[s] - !sizes.source_end;
                const float* first = memory + size_t(begins[s] - begins[0]) * row_width();
                sources[s].rows.emplace_back(first, first + size_t(begins[s + 1] - begins[s]) * row_width());
            }
        }
        return sources;
    }

    // A hypothesis that is to read one more token: its own keys and values are written at `place` of its sentence's `past` (one of each
    // layer), and it looks at its `line` of places, its own the last.
    struct Row {
        int token, position, place;
        const Source* source;
        std::vector<std::vector<float>>* past;
        const std::vector<int32_t>* line;
    };

    // The logits of what follows each row, [rows][target_vocabulary]; they stay valid until `room` is used again.
    float* decode(const std::vector<Row>& rows, const float* positions, Room& room) const {
        const int count = int(rows.size()), width = sizes.d_model, queries = sizes.heads * sizes.d_k;
        const int projected_width = queries + row_width(), value_width = sizes.heads * sizes.d_v;
        float* x = room.x.of(size_t(count) * width);
        for (int r = 0; r < count; r++)
            embed(target_embedding, rows[r].token, positions + size_t(rows[r].position) * width, x + size_t(r) * width);
        for (int layer = 0; layer < sizes.decoder_layers; layer++) {
            const Linear* linear = decoder_linears(layer);
            const Norm* norm = decoder_norms(layer);
            float* projected = room.projected.of(size_t(count) * projected_width);
            float* heads = room.heads.of(size_t(count) * value_width);
            float* out = room.out.of(size_t(count) * width);
            linear[0](before(norm[0], x, count, room), count, projected);
            for (int r = 0; r < count; r++) {
                float* own = (*rows[r].past)[layer].data() + size_t(rows[r].place) * row_width();
                std::memcpy(own, projected + size_t(r) * projected_width + queries, 4 * row_width());
            }
            for (int r = 0; r < count; r++) {
                const Memory line{(*rows[r].past)[layer].data(), rows[r].line->data(), int(rows[r].line->size())};
                look(projected + size_t(r) * projected_width, line, heads + size_t(r) * value_width, room);
            }
            linear[1](heads, count, out);
            after(norm[0], x, out, count);
            float* query = room.queries.of(size_t(count) * queries);
            linear[2](before(norm[1], x, count, room), count, query);
            for (int r = 0; r < count; r++) {
                const Memory source{rows[r].source->rows[layer].data(), nullptr, rows[r].source->length};
                look(query + size_t(r) * queries, source, heads + size_t(r) * value_width, room);
            }
            linear[4](heads, count, out);
            after(norm[1], x, out, count);
            feed_forward(linear + 5, norm[2], x, count, room);
        }
        if (sizes.pre_norm) last_norms()[1](x, count, x);
        float* logits = room.logits.of(size_t(count) * sizes.target_vocabulary);
        linears.back()(x, count, logits);
        return logits;
    }
};

}  // namespace dragoman
