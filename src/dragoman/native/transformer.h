// The Transformer for translation: the encoder, and the decoder step by step (section 3). A row is a token;
// the rows of several sentences follow one another without padding, and only attention distinguishes them.
//
// Oracle: model/transformer.py. Tested: tests/test_native.py::test_it_finds_what_search_in_pytorch_finds, for
// every setting.
#pragma once
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include "gemm.h"

namespace dragoman {

// Widths of heads are padded: decoder.py fills them up with zeros. The same fields as in decoder.py.
struct TransformerSettings {
    int32_t d_model, d_ff, decoder_d_ff, heads, d_k, d_v, encoder_layers, decoder_layers;
    int32_t precision, pre_norm, activation, source_end;
    int32_t alignment_head;  // of the last layer, counted from 1; 0 is the mean of all
    float embedding_scale, score_scale, norm_epsilon;
};

// A named parameter of the model, [rows][columns]; a vector has one row. The same fields as in decoder.py.
struct Parameter {
    const char* name;
    const float* values;
    int32_t rows, columns;
};

// The parameters by name. Each can be taken once; throws std::invalid_argument with a sentence.
class Parameters {
    std::map<std::string, Parameter> remaining;

  public:
    Parameters(const Parameter* parameters, int count) {
        for (const Parameter* p = parameters; p < parameters + count; p++) remaining.emplace(p->name, *p);
    }

    bool has(const std::string& name) const { return remaining.count(name) != 0; }

    // Its values, of this shape; any number of rows if `rows` is -1.
    Parameter take(const std::string& name, int rows, int columns) {
        const auto found = remaining.find(name);
        if (found == remaining.end()) throw std::invalid_argument("The parameter " + name + " is missing.");
        const Parameter parameter = found->second;
        if ((rows != -1 && parameter.rows != rows) || parameter.columns != columns)
            throw std::invalid_argument("The parameter " + name + " has the shape " +
                                        shape(parameter.rows, parameter.columns) + "; the settings give " +
                                        shape(rows == -1 ? parameter.rows : rows, columns) + ".");
        remaining.erase(found);
        return parameter;
    }

    // Null if the model does not have it.
    const float* take_bias(const std::string& name, int columns) {
        return has(name) ? take(name, 1, columns).values : nullptr;
    }

    void check_all_taken() const {
        if (!remaining.empty())
            throw std::invalid_argument("The parameter " + remaining.begin()->first + " is unknown.");
    }

  private:
    static std::string shape(int rows, int columns) {
        return "[" + std::to_string(rows) + ", " + std::to_string(columns) + "]";
    }
};

// y = (x - mean) / sqrt(variance + epsilon) gain + bias: layer normalisation (section 3.1).
// Oracle: torch.nn.LayerNorm. Tested: tests/test_native.py::test_it_finds_what_search_in_pytorch_finds,
// ::test_the_epsilon_of_layer_normalisation_is_the_models.
struct Norm {
    std::vector<float> gains, biases;
    int width = 0;
    float epsilon = 0;

    void operator()(const float* x, int rows, float* y) const {
        const float *gain = gains.data(), *bias = biases.data();
        for (; rows--; x += width, y += width) {
            float sum = 0, squares = 0;
#pragma omp simd reduction(+ : sum)
            for (int i = 0; i < width; i++) sum += x[i];
            const float mean = sum / float(width);
#pragma omp simd reduction(+ : squares)
            for (int i = 0; i < width; i++) squares += (x[i] - mean) * (x[i] - mean);
            const float scale = 1 / std::sqrt(squares / float(width) + epsilon);
#pragma omp simd
            for (int i = 0; i < width; i++) y[i] = (x[i] - mean) * scale * gain[i] + bias[i];
        }
    }
};

// The function inside the feed-forward sub-layer (section 3.3): 0 max(0, x), 1 GELU, 2 swish.
// Oracle: ACTIVATIONS of model/transformer.py. Tested:
// tests/test_native.py::test_it_finds_what_search_in_pytorch_finds.
inline void activate(float* x, size_t count, int kind) {
    if (kind == 0)
#pragma omp simd
        for (size_t i = 0; i < count; i++) x[i] = x[i] < 0 ? 0 : x[i];  // GCC 12 does not vectorise std::max here
    if (kind == 1)
        for (size_t i = 0; i < count; i++) x[i] *= 0.5f * (1 + std::erf(x[i] * 0.70710678f));
    if (kind == 2)
#pragma omp simd
        for (size_t i = 0; i < count; i++) x[i] /= 1 + exponential(-x[i]);
}

constexpr int PREFETCH_ROWS = 3;  // rows of keys that are fetched ahead
constexpr int CACHE_LINE_FLOATS = 16;
constexpr int QUERY_BLOCK = 8;  // query rows that stay in the L1 cache while they attend to the same memory

// Keys and values to attend to: each row has the keys of all heads, then their values, at `layer_offset` from
// where it begins.
struct KeysValues {
    const float* const* rows;
    int count;
    size_t layer_offset;

    // Prefetch part of a row, if the row exists, into the L2 cache.
    void fetch(int row, int first, int width) const {
        if (row >= count) return;
        for (int i = 0; i < width; i += CACHE_LINE_FLOATS)
            __builtin_prefetch(rows[row] + layer_offset + first + i, 0, 2);
    }
};

// A thread's intermediate results.
struct Workspace {
    Buffer<float> x, normed, projected, heads, queries, out, inner, weights, logits;
    std::vector<const float*> rows;
};

struct FeedForward {
    Linear inner, outer;
    Norm norm;
};

struct EncoderLayer {
    Linear query_key_value, attention_output;
    Norm attention_norm;
    FeedForward feed_forward;
};

struct DecoderLayer {
    Linear query_key_value, attention_output;
    Norm attention_norm;
    Linear cross_query, cross_key_value, cross_output;
    Norm cross_norm;
    FeedForward feed_forward;
};

class Transformer {
    std::vector<EncoderLayer> encoder;
    std::vector<DecoderLayer> decoder;
    Norm encoder_norm, decoder_norm;  // with pre_norm
    Linear output;
    const float *source_embedding, *target_embedding;

    Linear linear(Parameters& parameters, const std::string& name, int outputs, int inputs) const {
        const float* weight = parameters.take(name + ".weight", outputs, inputs).values;
        return Linear(weight, parameters.take_bias(name + ".bias", outputs), outputs, inputs,
                      settings.precision);
    }
    Norm norm(Parameters& parameters, const std::string& name) const {
        const int width = settings.d_model;
        const float* gain = parameters.take(name + ".weight", 1, width).values;
        const float* bias = parameters.take(name + ".bias", 1, width).values;
        return {{gain, gain + width}, {bias, bias + width}, width, settings.norm_epsilon};
    }
    FeedForward feed_forward(Parameters& parameters, const std::string& layer, int width) const {
        return {linear(parameters, layer + ".feed_forward.inner", width, settings.d_model),
                linear(parameters, layer + ".feed_forward.outer", settings.d_model, width),
                norm(parameters, layer + ".feed_forward_residual.norm")};
    }
    EncoderLayer encoder_layer(Parameters& parameters, const std::string& layer) const {
        const int queries = settings.heads * settings.d_k, values = settings.heads * settings.d_v;
        return {linear(parameters, layer + ".self_attention.query_key_value", queries + row_width(),
                       settings.d_model),
                linear(parameters, layer + ".self_attention.output", settings.d_model, values),
                norm(parameters, layer + ".self_attention_residual.norm"),
                feed_forward(parameters, layer, settings.d_ff)};
    }
    DecoderLayer decoder_layer(Parameters& parameters, const std::string& layer) const {
        const int queries = settings.heads * settings.d_k, values = settings.heads * settings.d_v,
                  width = settings.d_model;
        const std::string cross = layer + ".cross_attention.query_key_value";
        const float* weight = parameters.take(cross + ".weight", queries + row_width(), width).values;
        const float* bias = parameters.take_bias(cross + ".bias", queries + row_width());
        const float* key_value = weight + size_t(queries) * width;
        return {linear(parameters, layer + ".self_attention.query_key_value", queries + row_width(), width),
                linear(parameters, layer + ".self_attention.output", width, values),
                norm(parameters, layer + ".self_attention_residual.norm"),
                Linear(weight, bias, queries, width, settings.precision),
                Linear(key_value, bias ? bias + queries : nullptr, row_width(), width, settings.precision),
                linear(parameters, layer + ".cross_attention.output", width, values),
                norm(parameters, layer + ".cross_attention_residual.norm"),
                feed_forward(parameters, layer, settings.decoder_d_ff)};
    }

    // The input of a sub-layer, and what is done with its output y (section 3.1): LayerNorm(x + y), or x + y
    // with pre_norm.
    const float* before(const Norm& norm, float* x, int rows, Workspace& workspace) const {
        if (!settings.pre_norm) return x;
        float* normed = workspace.normed.reserve(size_t(rows) * settings.d_model);
        norm(x, rows, normed);
        return normed;
    }
    void after(const Norm& norm, float* x, const float* y, int rows) const {
        add(x, y, size_t(rows) * settings.d_model);
        if (!settings.pre_norm) norm(x, rows, x);
    }

    // softmax(Q Kᵀ / √d_k) V (section 3.2.1, equation 1) of every head, for `rows` rows of queries,
    // `query_stride` apart, that attend to the same memory. It is read in its order, once for all rows. out
    // is [rows][heads * d_v]. Oracle: attention of model/attention.py. Tested:
    // tests/test_native.py::test_it_finds_what_search_in_pytorch_finds.
    void attend(const float* query, size_t query_stride, int rows, const KeysValues& memory, float* out,
                Workspace& workspace) const {
        const int heads = settings.heads, count = memory.count, keys = heads * settings.d_k,
                  width = heads * settings.d_v;
        float* weights = workspace.weights.reserve(size_t(rows) * heads * count);
        for (int n = 0; n < count; n++) {
            memory.fetch(n + PREFETCH_ROWS, 0, keys);
            memory.fetch(n, keys, width);
            for (int r = 0; r < rows; r++)
                for (int head = 0; head < heads; head++) {
                    const float* key = memory.rows[n] + memory.layer_offset + head * settings.d_k;
                    const float score =
                        dot(query + size_t(r) * query_stride + head * settings.d_k, key, settings.d_k) *
                        settings.score_scale;
                    weights[size_t(r * heads + head) * count + n] = score;
                }
        }
        for (int head = 0; head < rows * heads; head++) {
            float* own = weights + size_t(head) * count;
            const float largest = maximum(own, count);
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
                    const float* value = memory.rows[n] + memory.layer_offset + keys + head * settings.d_v;
                    add_scaled(out + size_t(r) * width + head * settings.d_v, value,
                               weights[size_t(r * heads + head) * count + n], settings.d_v);
                }
    }

    // The weights of the last call of `attend` that alignments are read from: row `row` of its queries, for
    // `count` keys. Oracle: select_head of translation/alignment.py. Tested:
    // tests/test_native.py::test_weights_of_a_search_are_those_of_forced_decoding.
    void copy_weights(const Workspace& workspace, int row, int count, float* out) const {
        const int heads = settings.heads, chosen = settings.alignment_head;
        const float* weights = workspace.weights.begin() + size_t(row) * heads * count;
        const int first = chosen ? chosen - 1 : 0, last = chosen ? chosen : heads;
        std::fill_n(out, count + !settings.source_end, 0.0f);
        for (int head = first; head < last; head++)
            for (int n = 0; n < count; n++) out[n] += weights[size_t(head) * count + n];
        for (int n = 0; n < count; n++) out[n] /= float(last - first);
    }

    // x = LayerNorm(x + W_2 max(0, W_1 x + b_1) + b_2) (section 3.3), or with pre_norm x + … LayerNorm(x).
    void apply(const FeedForward& layer, float* x, int rows, Workspace& workspace) const {
        const size_t units = size_t(rows) * layer.inner.outputs;
        float* inner = workspace.inner.reserve(units);
        float* out = workspace.out.reserve(size_t(rows) * settings.d_model);
        layer.inner(before(layer.norm, x, rows, workspace), rows, inner);
        activate(inner, units, settings.activation);
        layer.outer(inner, rows, out);
        after(layer.norm, x, out, rows);
    }

    void embed(const float* embedding, int token, const float* position, float* x) const {
        const float* row = embedding + size_t(token) * settings.d_model;
#pragma omp simd
        for (int i = 0; i < settings.d_model; i++) x[i] = row[i] * settings.embedding_scale + position[i];
    }

  public:
    const TransformerSettings settings;

    // Packs copies of all parameters but the embeddings, which must outlive the model. Throws
    // std::invalid_argument with a sentence if a parameter is missing, unknown or misshapen.
    Transformer(const TransformerSettings& settings, Parameters parameters) : settings(settings) {
        const int width = settings.d_model;
        const Parameter target = parameters.take("target_embedding.weight", -1, width);
        target_embedding = target.values;
        const bool shared = !parameters.has("source_embedding.weight");
        source_embedding =
            shared ? target_embedding : parameters.take("source_embedding.weight", -1, width).values;
        for (int n = 0; n < settings.encoder_layers; n++)
            encoder.push_back(encoder_layer(parameters, "encoder." + std::to_string(n)));
        for (int n = 0; n < settings.decoder_layers; n++)
            decoder.push_back(decoder_layer(parameters, "decoder." + std::to_string(n)));
        if (settings.pre_norm) {
            encoder_norm = norm(parameters, "encoder_norm");
            decoder_norm = norm(parameters, "decoder_norm");
        }
        const bool tied = !parameters.has("output.weight");
        const float* weight =
            tied ? target_embedding : parameters.take("output.weight", target.rows, width).values;
        output = Linear(weight, parameters.take_bias("output_bias", target.rows), target.rows, width,
                        settings.precision);
        parameters.check_all_taken();
    }

    int row_width() const { return settings.heads * (settings.d_k + settings.d_v); }  // of keys and values

    // The keys and values of a source for the decoder: one row per token, and the distance between those of
    // two layers.
    struct Source {
        std::vector<float> numbers;
        std::vector<const float*> rows;
        size_t layer_stride;
    };

    // Encode several sources: source s is ids[begins[s]] to ids[begins[s + 1]].
    std::vector<Source> encode(const int32_t* ids, const std::vector<int>& begins, const float* positions,
                               Workspace& workspace) const {
        const int rows = begins.back() - begins.front(), width = settings.d_model,
                  queries = settings.heads * settings.d_k;
        const int projected_width = queries + row_width(), value_width = settings.heads * settings.d_v;
        float* x = workspace.x.reserve(size_t(rows) * width);
        float* projected = workspace.projected.reserve(size_t(rows) * projected_width);
        float* heads = workspace.heads.reserve(size_t(rows) * value_width);
        float* out = workspace.out.reserve(size_t(rows) * width);
        const auto each_sentence = [&](auto&& what) {  // with its first row, and the row after its last
            for (size_t s = 0; s + 1 < begins.size(); s++)
                what(begins[s] - begins[0], begins[s + 1] - begins[0]);
        };
        each_sentence([&](int first, int end) {
            for (int at = first; at < end; at++)
                embed(source_embedding, ids[begins[0] + at], positions + size_t(at - first) * width,
                      x + size_t(at) * width);
        });
        workspace.rows.resize(rows);
        for (int at = 0; at < rows; at++)
            workspace.rows[at] = projected + size_t(at) * projected_width + queries;
        for (const EncoderLayer& layer : encoder) {
            layer.query_key_value(before(layer.attention_norm, x, rows, workspace), rows, projected);
            each_sentence([&](int first, int end) {
                const KeysValues memory{&workspace.rows[first], end - first - !settings.source_end, 0};
                for (int at = first; at < end; at += QUERY_BLOCK) {
                    const float* query = projected + size_t(at) * projected_width;
                    attend(query, projected_width, std::min(QUERY_BLOCK, end - at), memory,
                           heads + size_t(at) * value_width, workspace);
                }
            });
            layer.attention_output(heads, rows, out);
            after(layer.attention_norm, x, out, rows);
            apply(layer.feed_forward, x, rows, workspace);
        }
        if (settings.pre_norm) encoder_norm(x, rows, x);
        return project_memory(x, begins, projected);
    }

    // The keys and values of each decoder layer for the encoder's output x, [rows][d_model]; `projected` is
    // working memory for those of one layer.
    std::vector<Source> project_memory(const float* x, const std::vector<int>& begins,
                                       float* projected) const {
        const int rows = begins.back() - begins.front();
        std::vector<Source> sources(begins.size() - 1);
        for (const DecoderLayer& layer : decoder) {
            layer.cross_key_value(x, rows, projected);
            for (size_t s = 0; s < sources.size(); s++) {
                const float* first = projected + size_t(begins[s] - begins[0]) * row_width();
                sources[s].layer_stride = size_t(begins[s + 1] - begins[s]) * row_width();
                sources[s].numbers.insert(sources[s].numbers.end(), first, first + sources[s].layer_stride);
            }
        }
        for (size_t s = 0; s < sources.size(); s++)
            for (int at = 0; at < begins[s + 1] - begins[s] - !settings.source_end; at++)
                sources[s].rows.push_back(sources[s].numbers.data() + size_t(at) * row_width());
        return sources;
    }

    // A token that a hypothesis reads. `ancestry` has the keys and values of its tokens in the first layer,
    // those of the next layers `layer_stride` apart; those of this token are written to the last one. `weights`
    // gets the attention to each source token that alignments are read from; null if nobody asks.
    struct DecoderInput {
        int token;
        const float* position;  // the row of the position table
        const Source* source;
        const std::vector<float*>* ancestry;
        size_t layer_stride;
        float* weights;
    };

    // From features to logits (section 3.4).
    const Linear& output_projection() const { return output; }

    // The features that predict what follows each row, [rows][d_model]; they are valid until `workspace` is
    // used again.
    const float* decode(const std::vector<DecoderInput>& rows, Workspace& workspace) const {
        const int count = int(rows.size()), width = settings.d_model, queries = settings.heads * settings.d_k;
        const int projected_width = queries + row_width(), value_width = settings.heads * settings.d_v;
        float* x = workspace.x.reserve(size_t(count) * width);
        float* projected = workspace.projected.reserve(size_t(count) * projected_width);
        float* heads = workspace.heads.reserve(size_t(count) * value_width);
        float* query = workspace.queries.reserve(size_t(count) * queries);
        float* out = workspace.out.reserve(size_t(count) * width);
        for (int r = 0; r < count; r++)
            embed(target_embedding, rows[r].token, rows[r].position, x + size_t(r) * width);
        for (size_t number = 0; number < decoder.size(); number++) {
            const DecoderLayer& layer = decoder[number];
            layer.query_key_value(before(layer.attention_norm, x, count, workspace), count, projected);
            for (int r = 0; r < count; r++) {
                const DecoderInput& row = rows[r];
                const float* own = projected + size_t(r) * projected_width;
                std::memcpy(row.ancestry->back() + number * row.layer_stride, own + queries,
                            4 * size_t(row_width()));
                attend(own, 0, 1,
                       {row.ancestry->data(), int(row.ancestry->size()), number * row.layer_stride},
                       heads + size_t(r) * value_width, workspace);
            }
            layer.attention_output(heads, count, out);
            after(layer.attention_norm, x, out, count);
            layer.cross_query(before(layer.cross_norm, x, count, workspace), count, query);
            for (int r = 0, end = 0; r < count; r = end) {  // the hypotheses of a sentence are adjacent
                const Source& source = *rows[r].source;
                while (end < std::min(count, r + QUERY_BLOCK) && rows[end].source == &source) end++;
                const KeysValues memory{source.rows.data(), int(source.rows.size()),
                                        number * source.layer_stride};
                attend(query + size_t(r) * queries, queries, end - r, memory, heads + size_t(r) * value_width,
                       workspace);
                for (int at = r; at < end && number + 1 == decoder.size(); at++)
                    if (rows[at].weights) copy_weights(workspace, at - r, memory.count, rows[at].weights);
            }
            layer.cross_output(heads, count, out);
            after(layer.cross_norm, x, out, count);
            apply(layer.feed_forward, x, count, workspace);
        }
        if (settings.pre_norm) decoder_norm(x, count, x);
        return x;
    }
};

}  // namespace dragoman
