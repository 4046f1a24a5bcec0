// Beam search (section 6.1) for many sentences at once; a finished sentence is replaced by the next.
//
// Oracle: search/beam.py. Tested: tests/test_native.py.
#include <cstdio>
#include <exception>
#include <memory>

#include "transformer.h"

using namespace dragoman;

namespace {

constexpr int PAD = 0, END = 3, START = 2;  // as dragoman/model/symbols.py
constexpr int BLOCK = 64;                   // tokens that are skipped together if their best is too low

// One call of a search, for sentences 0 to sentences - 1. The same fields as in decoder.py; null for no
// elements.
struct SearchArguments {
    int32_t sentences, beam_size, n_best, max_rows;
    int32_t min_length, no_repeat_ngram, banned_count, prefix_length;  // Constraints of search/settings.py
    const int32_t *banned_ids, *banned_offsets,
        *prefix;  // sequence b is banned_ids[banned_offsets[b]] to [banned_offsets[b + 1]]
    const int32_t *source_ids,
        *source_offsets;         // sentence s is source_ids[source_offsets[s]] to [source_offsets[s + 1]]
    const int32_t* max_lengths;  // of each sentence's translation, END not counted
    const int32_t *shortlist, *shortlist_offsets;  // the tokens that each sentence may have; null for all
    const float *source_positions, *target_positions;
    const float* normalizer;        // the divisor of a log-probability for each length, END included
    const int64_t* output_offsets;  // of each sentence's n_best hypotheses, max_length + 1 apart
    int32_t *output_ids, *lengths;  // lengths [sentences][n_best], END not counted; -1 for none
    float *log_p, *scores;          // [sentences][n_best]
    int32_t next_sentence, stop;    // atomic; the first sentence that no thread has taken
};

struct Hypothesis {
    float log_p, score;
    std::vector<int32_t> ids;
    std::vector<float*> ancestry;  // the keys and values of START and of its tokens in the first layer
};

struct Candidate {
    float total;
    int origin, token;
};

struct Sentence {
    int number, step = 0;
    Transformer::Source source;
    Linear logits;  // to its shortlist, if there is one
    std::vector<std::unique_ptr<float[]>>
        kv_cache;                            // of each step: keys and values of the beam, layer by layer
    std::vector<Hypothesis> live, finished;  // best first
};

// The best k candidates offered, best first; of equal ones the first. Oracle: search/top_k.py.
// Tested: tests/test_native.py::test_equal_probabilities_fall_as_in_pytorch.
class TopK {
    size_t k;

  public:
    std::vector<Candidate> candidates;

    explicit TopK(size_t k) : k(k) { candidates.reserve(k + 1); }
    float threshold() const { return candidates.size() < k ? -INFINITY : candidates.back().total; }
    void offer(const Candidate& one) {
        if (!(one.total > threshold())) return;
        auto place = candidates.end();
        while (place != candidates.begin() && one.total > (place - 1)->total) --place;
        candidates.insert(place, one);
        if (candidates.size() > k) candidates.pop_back();
    }
};

// The logits of a step: of the shortlist, which is sorted and has END, or of all tokens if it is null.
struct Logits {
    float* values;
    int count;
    const int32_t* shortlist;

    int token(int index) const { return shortlist ? shortlist[index] : index; }
    int index(int token) const {  // `count` if the shortlist lacks it
        if (!shortlist) return token;
        const int32_t* found = std::lower_bound(shortlist, shortlist + count, token);
        return found != shortlist + count && *found == token ? int(found - shortlist) : count;
    }
    void forbid(int token) {
        if (const int i = index(token); i < count) values[i] = -INFINITY;
    }
};

// Forbid what the constraints forbid after these tokens; if they forbid all, END is allowed.
// Oracle: search/constraints.py. Tested: tests/test_native.py::test_it_keeps_the_rules_as_pytorch_does.
void apply_constraints(Logits logits, const std::vector<int32_t>& ids, const SearchArguments& args) {
    const int length = int(ids.size()), end = logits.index(END), size = args.no_repeat_ngram;
    const float end_logit = logits.values[end];
    const auto ends_with = [&](const int32_t* tokens, int count) {
        return count <= length && std::equal(tokens, tokens + count, ids.end() - count);
    };
    if (length < args.min_length) logits.forbid(END);
    if (length < args.prefix_length) {
        const int next = logits.index(args.prefix[length]);
        for (int at = 0; at < logits.count; at++)
            if (at != next) logits.values[at] = -INFINITY;
    }
    for (int ban = 0; ban < args.banned_count; ban++) {
        const int32_t *first = args.banned_ids + args.banned_offsets[ban],
                      *last = args.banned_ids + args.banned_offsets[ban + 1] - 1;
        if (ends_with(first, int(last - first))) logits.forbid(*last);
    }
    for (int first = 0; size && first + size <= length; first++)
        if (ends_with(&ids[first], size - 1)) logits.forbid(ids[first + size - 1]);
    if (std::none_of(logits.values, logits.values + logits.count,
                     [](float logit) { return logit > -INFINITY; }))
        logits.values[end] = end_logit;
}

// Offer the extensions of a hypothesis that the constraints allow, with their log-probabilities
// (section 6.1); END alone if it must end. Oracle: search/beam.py. Tested:
// tests/test_native.py::test_it_finds_what_search_in_pytorch_finds,
// ::test_a_hypothesis_of_exactly_the_longest_length_is_found.
void extend(Logits logits, int origin, const Hypothesis& hypothesis, bool must_end,
            const SearchArguments& args, TopK& best, Buffer<float>& buffer) {
    const int count = logits.count, blocks = (count + BLOCK - 1) / BLOCK;
    const float previous = hypothesis.log_p;
    float *highest = buffer.reserve(blocks), largest = -INFINITY, sum = 0;
    for (int token : {PAD, START}) logits.forbid(token);  // never predicted
    for (int block = 0; block < blocks; block++) {
        const int last = std::min(count, (block + 1) * BLOCK);
        highest[block] = maximum(logits.values + block * BLOCK, last - block * BLOCK);
        largest = std::max(largest, highest[block]);
    }
#pragma omp simd reduction(+ : sum)
    for (int at = 0; at < count; at++) sum += exponential(logits.values[at] - largest);
    const float log_sum = largest + std::log(sum);
    if (must_end) return best.offer({logits.values[logits.index(END)] - log_sum + previous, origin, END});
    if (args.min_length || args.no_repeat_ngram || args.banned_count || args.prefix_length)
        apply_constraints(logits, hypothesis.ids, args);
    for (int block = 0; block < blocks; block++)
        if (highest[block] - log_sum + previous > best.threshold())
            for (int at = block * BLOCK; at < std::min(count, (block + 1) * BLOCK); at++)
                best.offer({logits.values[at] - log_sum + previous, origin, logits.token(at)});
}

// Replace the hypotheses of a sentence by the best of their extensions. Returns whether its search is
// finished. Oracle: search/beam.py. Tested:
// tests/test_native.py::test_it_stops_when_its_rule_says_so_in_plain_lists.
bool advance(Sentence& sentence, const std::vector<Candidate>& extensions, const SearchArguments& args) {
    const size_t width = args.beam_size;
    const int length = sentence.step + 1;  // of a hypothesis that ends now, END included
    std::vector<Hypothesis> live;
    for (size_t rank = 0; rank < extensions.size() && live.size() < width; rank++) {
        const Candidate& one = extensions[rank];
        Hypothesis next{one.total, one.total / args.normalizer[length], sentence.live[one.origin].ids, {}};
        if (one.token != END) {
            next.ids.push_back(one.token);
            next.ancestry = sentence.live[one.origin].ancestry;
            live.push_back(std::move(next));
        } else if (rank < width) {
            auto place = sentence.finished.end();
            while (place != sentence.finished.begin() && next.score > (place - 1)->score) --place;
            sentence.finished.insert(place, std::move(next));
            if (sentence.finished.size() > width) sentence.finished.pop_back();
        }
    }
    sentence.live = std::move(live);
    sentence.step++;
    if (sentence.live.empty() || sentence.finished.size() == width) return true;
    const float best = sentence.live[0].log_p / args.normalizer[args.max_lengths[sentence.number] + 1];
    const size_t n_best = args.n_best;
    return sentence.finished.size() >= n_best && best <= sentence.finished[n_best - 1].score;
}

// Write the n_best hypotheses of a finished sentence.
void write_hypotheses(const Sentence& sentence, const SearchArguments& args) {
    for (int rank = 0; rank < args.n_best; rank++) {
        const size_t at = size_t(sentence.number) * args.n_best + rank;
        args.lengths[at] = -1;
        if (rank >= int(sentence.finished.size())) continue;
        const Hypothesis& one = sentence.finished[rank];
        args.lengths[at] = int32_t(one.ids.size());
        args.log_p[at] = one.log_p;
        args.scores[at] = one.score;
        std::copy(one.ids.begin(), one.ids.end(),
                  args.output_ids + args.output_offsets[sentence.number] +
                      rank * (args.max_lengths[sentence.number] + 1));
    }
}

// Encode the next sentences if there are free rows.
// Tested: tests/test_native.py::test_neighbours_threads_and_batches_change_no_bit.
void admit(const Transformer& model, SearchArguments& args, std::vector<Sentence>& sentences,
           Workspace& workspace) {
    const int wanted = args.max_rows / args.beam_size - int(sentences.size());
    if (wanted <= 0) return;
    const int first = __atomic_fetch_add(&args.next_sentence, wanted, __ATOMIC_RELAXED),
              last = std::min(first + wanted, args.sentences);
    if (first >= last) return;
    const std::vector<int> begins(args.source_offsets + first, args.source_offsets + last + 1);
    auto sources = model.encode(args.source_ids, begins, args.source_positions, workspace);
    for (int number = first; number < last; number++) {
        Sentence sentence;
        sentence.number = number;
        sentence.source = std::move(sources[number - first]);
        if (args.shortlist)
            sentence.logits = model.logits().select_outputs(
                args.shortlist + args.shortlist_offsets[number],
                args.shortlist_offsets[number + 1] - args.shortlist_offsets[number]);
        sentence.live.push_back({0, 0, {}, {}});
        sentences.push_back(std::move(sentence));
    }
}

// Extend all hypotheses of all sentences by one token.
void step(const Transformer& model, const SearchArguments& args, std::vector<Sentence>& sentences,
          Workspace& workspace) {
    std::vector<Transformer::DecoderInput> rows;
    for (Sentence& sentence : sentences) {
        const size_t layer_stride = size_t(args.beam_size) * model.row_width();
        sentence.kv_cache.emplace_back(new float[model.settings.decoder_layers * layer_stride]);
        float* own = sentence.kv_cache.back().get();
        for (Hypothesis& one : sentence.live) {
            one.ancestry.push_back(own);
            own += model.row_width();
            rows.push_back({one.ids.empty() ? START : one.ids.back(), sentence.step, &sentence.source,
                            &one.ancestry, layer_stride});
        }
    }
    const float* features = model.decode(rows, args.target_positions, workspace);
    float* logits = workspace.logits.reserve(rows.size() * model.logits().outputs);
    if (!args.shortlist) model.logits()(features, int(rows.size()), logits);
    std::vector<bool> done;
    for (Sentence& sentence : sentences) {
        const Linear& map = args.shortlist ? sentence.logits : model.logits();
        const int32_t* shortlist =
            args.shortlist ? args.shortlist + args.shortlist_offsets[sentence.number] : nullptr;
        if (shortlist) map(features, int(sentence.live.size()), logits);
        features += sentence.live.size() * map.inputs;
        TopK best(2 * args.beam_size);
        const bool must_end = sentence.step >= args.max_lengths[sentence.number];
        for (size_t origin = 0; origin < sentence.live.size(); origin++, logits += map.outputs)
            extend({logits, map.outputs, shortlist}, int(origin), sentence.live[origin], must_end, args, best,
                   workspace.weights);
        done.push_back(advance(sentence, best.candidates, args));
        if (done.back()) write_hypotheses(sentence, args);
    }
    size_t kept = 0;
    for (size_t s = 0; s < sentences.size(); s++)
        if (!done[s]) {
            if (kept != s) sentences[kept] = std::move(sentences[s]);
            kept++;
        }
    sentences.resize(kept);
}

}  // namespace

// The functions that decoder.py calls. They throw nothing.
// Tested: tests/test_native.py::test_structures_of_another_size_are_refused, ::test_parameters_go_by_name,
// ::test_a_lack_of_memory_gets_a_sentence.
extern "C" {

// Statuses of dragoman_search, as in decoder.py.
enum Status : int32_t { OK = 0, OUT_OF_MEMORY = 1, WRONG_SIZE = 2 };

size_t dragoman_sizeof_transformer_settings() { return sizeof(TransformerSettings); }
size_t dragoman_sizeof_parameter() { return sizeof(Parameter); }
size_t dragoman_sizeof_search_arguments() { return sizeof(SearchArguments); }

// Hypotheses that a thread extends at once: enough for full speed, few enough for the L2 cache, and full
// tiles.
int32_t dragoman_max_rows() { return amx_allowed() ? 3 * TILE : 36; }

// A packed model, to be freed by dragoman_free_model. If it fails: null, with a sentence in `error` unless
// memory does not suffice. The sizes are those of the caller's structures.
void* dragoman_load_model(const TransformerSettings* settings, size_t settings_size,
                          const Parameter* parameters, size_t parameter_size, int32_t count, char* error,
                          size_t error_size) {
    std::snprintf(error, error_size, "%s", "");
    if (settings_size != sizeof *settings || parameter_size != sizeof *parameters) {
        std::snprintf(error, error_size, "beam_search.cpp refuses a structure of another size.");
        return nullptr;
    }
    try {
        return new Transformer(*settings, Parameters(parameters, count));
    } catch (const std::invalid_argument& reason) {
        std::snprintf(error, error_size, "%s", reason.what());
        return nullptr;
    } catch (const std::exception&) {
        return nullptr;
    }
}

void dragoman_free_model(void* model) { delete static_cast<Transformer*>(model); }

// Search until no sentence is left, or `stop` is set. Any number of threads may share the arguments.
int32_t dragoman_search(const void* transformer, SearchArguments* arguments, size_t size) {
    if (size != sizeof *arguments) return WRONG_SIZE;
    const auto& model = *static_cast<const Transformer*>(transformer);
    try {
        thread_local Workspace workspace;
        std::vector<Sentence> sentences;
        while (!__atomic_load_n(&arguments->stop, __ATOMIC_RELAXED)) {
            if (sentences.size() * arguments->beam_size * 4 <= size_t(arguments->max_rows) * 3)
                admit(model, *arguments, sentences, workspace);
            if (sentences.empty()) return OK;
            step(model, *arguments, sentences, workspace);
        }
        return OK;
    } catch (const std::exception&) {
        return OUT_OF_MEMORY;
    }
}
}
