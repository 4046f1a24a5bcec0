// Beam search (section 6.1) for the sentences of many searches at once: at each step, sentences join the
// batch and finished ones leave it (continuous batching).
//
// Oracle: search/beam.py. Tested: tests/test_native.py, tests/test_engine.py.
#include <sys/resource.h>
#ifdef __linux__
#include <sys/syscall.h>
#include <unistd.h>
#endif

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <numeric>
#include <thread>

#include "forced_phrases.h"
#include "transformer.h"

using namespace dragoman;

namespace {

constexpr int PAD = 0, END = 3, START = 2;  // as dragoman/model/symbols.py
constexpr size_t TOGETHER = 16;             // searches that are done, to be answered together
constexpr size_t QUEUED = 8;                // while so many wait for rows: then no row stays empty
constexpr auto LINGER = std::chrono::milliseconds(20);  // the longest wait of a search that is done
constexpr int SMALL_SHARE = 3;              // beside large searches, small ones have so many times their time
constexpr int ENCODED = 48;                 // source tokens that are encoded together, or one sentence
constexpr int BLOCK = 64;                   // tokens that are skipped together if their best is too low

// Results of a search, as in engine.py (check_status).
enum Status : int32_t { OK = 0, OUT_OF_MEMORY = 1, WRONG_SIZE = 2 };

// A search, for sentences 0 to sentences - 1. The same fields as in engine.py; null for no elements.
struct Search {
    int32_t sentences, beam_size, n_best, max_rows;
    int32_t min_length, no_repeat_ngram, banned_count, prefix_length;  // Constraints of search/hypothesis.py
    const int32_t *banned_ids, *banned_offsets,
        *prefix;  // sequence b is banned_ids[banned_offsets[b]] to [banned_offsets[b + 1]]
    const int32_t *source_ids,
        *source_offsets;         // sentence s is source_ids[source_offsets[s]] to [source_offsets[s + 1]]
    const int32_t* max_lengths;  // of each sentence's translation, END not counted
    const int32_t *shortlist, *shortlist_offsets;  // the tokens that each sentence may have; null for all
    const float *source_positions, *target_positions;
    const int32_t* rows;  // hypotheses that each sentence may have at once
    // Sentence s has the forced phrases sentence_phrases[s] to [s + 1], phrase p has the forms phrase_forms[p] to
    // [p + 1] and translates the source tokens places[place_offsets[p]] to [p + 1], and form f is
    // forced_ids[form_offsets[f]] to [form_offsets[f + 1]]; null for none.
    const int32_t *forced_ids, *form_offsets, *phrase_forms, *places, *place_offsets, *sentence_phrases;
    const uint8_t* continuing;  // 1 for each token of the vocabulary that continues a word
    const float* length_normalization;  // the divisor of a log-probability for each length, END included
    const int64_t* output_offsets;  // of each sentence's n_best hypotheses, max_length + 1 apart
    int32_t *output_ids, *lengths;  // lengths [sentences][n_best], END not counted; -1 for none
    float *log_probs, *scores;      // [sentences][n_best]
    // The attention to the source of each token of a hypothesis and of its END, [n_best][max_length + 1][source
    // tokens] for each sentence; null if nobody asks.
    float* attention;
    const int64_t* attention_offsets;
    // While a sentence is searched: the first tokens that all its hypotheses share, and how many they are, as
    // output_ids with an n_best of 1; null if nobody asks.
    int32_t *stable_ids, *stable_lengths;
    // Only under the engine's mutex: the first sentence that no thread has taken, sentences that are neither
    // done nor dropped, whether it is cancelled or has failed, and its Status.
    int32_t next_sentence, unfinished, stopped, status;

    bool is_large() const { return sentences > 1; }
    int source_tokens(int sentence) const { return source_offsets[sentence + 1] - source_offsets[sentence]; }
    int rows_from(int sentence) const { return std::accumulate(rows + sentence, rows + sentences, 0); }
    ForcedPhrases forced_phrases(int sentence) const {
        ForcedPhrases forced{{}, continuing};
        if (!sentence_phrases) return forced;
        for (int p = sentence_phrases[sentence]; p < sentence_phrases[sentence + 1]; p++) {
            forced.phrases.push_back({{}, Ids(places + place_offsets[p], places + place_offsets[p + 1])});
            for (int f = phrase_forms[p]; f < phrase_forms[p + 1]; f++)
                forced.phrases.back().forms.emplace_back(forced_ids + form_offsets[f],
                                                         forced_ids + form_offsets[f + 1]);
        }
        return forced;
    }
};

struct Hypothesis {
    float total, score;  // the log-probability and guidance, which rank it
    float guidance;      // 0 without forced phrases
    std::vector<int32_t> ids;
    std::vector<float*> ancestry;  // the keys and values of START and of its tokens in the first layer
    std::vector<float*> attention;  // of each of its tokens and of END to the source, if somebody asks
};

struct Candidate {
    float total;
    int origin, token;
    float guidance = 0;
};

struct Sentence {
    Search* search;
    int number, step = 0;
    bool done = false;
    Transformer::Source source;
    Linear output_projection;  // to its shortlist, if there is one
    ForcedPhrases forced;
    std::vector<std::unique_ptr<float[]>>
        kv_cache;  // of each step: keys and values of all rows, layer by layer, and their attention to the source
    std::vector<Hypothesis> live, finished;  // best first in each beam

    int rows() const { return search->rows[number]; }
    bool needs_attention() const { return search->attention || forced.are_guided(); }
};

// The best k candidates offered, best first; of equal ones the first. Oracle: search/beam.py.
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
void apply_constraints(Logits logits, const std::vector<int32_t>& ids, const Search& search) {
    const int length = int(ids.size()), end = logits.index(END), size = search.no_repeat_ngram;
    const float end_logit = logits.values[end];
    const auto ends_with = [&](const int32_t* tokens, int count) {
        return count <= length && std::equal(tokens, tokens + count, ids.end() - count);
    };
    if (length < search.min_length) logits.forbid(END);
    if (length < search.prefix_length) {
        const int next = logits.index(search.prefix[length]);
        for (int at = 0; at < logits.count; at++)
            if (at != next) logits.values[at] = -INFINITY;
    }
    for (int ban = 0; ban < search.banned_count; ban++) {
        const int32_t *first = search.banned_ids + search.banned_offsets[ban],
                      *last = search.banned_ids + search.banned_offsets[ban + 1] - 1;
        if (ends_with(first, int(last - first))) logits.forbid(*last);
    }
    for (int first = 0; size && first + size <= length; first++)
        if (ends_with(&ids[first], size - 1)) logits.forbid(ids[first + size - 1]);
    if (std::none_of(logits.values, logits.values + logits.count,
                     [](float logit) { return logit > -INFINITY; }))
        logits.values[end] = end_logit;
}

// Offer the extensions of a hypothesis that the constraints allow, with their log-probabilities
// (section 6.1); END alone if it must end. Returns the logarithm of the sum of exponentials of its logits. With two
// callers the compiler would not inline it, and translations would take a tenth longer. Oracle: search/beam.py. Tested:
// tests/test_native.py::test_it_finds_what_search_in_pytorch_finds,
// ::test_a_hypothesis_of_exactly_the_longest_length_is_found.
inline __attribute__((always_inline)) float extend(Logits logits, int origin, const Hypothesis& hypothesis,
                                                   bool must_end, const Search& search, TopK& best, Buffer<float>& buffer) {
    const int count = logits.count, blocks = (count + BLOCK - 1) / BLOCK;
    const float previous = hypothesis.total;
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
    if (must_end) {
        best.offer({logits.values[logits.index(END)] - log_sum + previous, origin, END});
        return log_sum;
    }
    if (search.min_length || search.no_repeat_ngram || search.banned_count || search.prefix_length)
        apply_constraints(logits, hypothesis.ids, search);
    for (int block = 0; block < blocks; block++)
        if (highest[block] - log_sum + previous > best.threshold())
            for (int at = block * BLOCK; at < std::min(count, (block + 1) * BLOCK); at++)
                best.offer({logits.values[at] - log_sum + previous, origin, logits.token(at)});
    return log_sum;
}

// The candidates of a beam, best first, and how many of them stay live.
struct CandidateBeam {
    std::vector<Candidate> candidates;
    size_t width;
};

// The hypotheses of a sentence with their likeliest tokens, in one beam.
std::vector<CandidateBeam> extended_beam(const Sentence& sentence, Logits logits, bool must_end,
                                         Buffer<float>& buffer) {
    const Search& search = *sentence.search;
    TopK best(2 * search.beam_size);
    for (size_t origin = 0; origin < sentence.live.size(); origin++, logits.values += logits.count)
        extend(logits, int(origin), sentence.live[origin], must_end, search, best, buffer);
    return {{best.candidates, size_t(search.beam_size)}};
}

// The hypotheses that the beam of those with `met` of all forced tokens keeps. Oracle: search/grid_beam.py.
size_t beam_width(int met, int forced_tokens, int beam_size) {
    return met == forced_tokens ? beam_size : std::max(1, beam_size / 2);
}

// The hypotheses of a sentence with their candidate tokens, in a beam for each number of forced tokens met
// (Hokamp and Liu 2017). If there is none, and nothing is finished, the hypothesis that has met most is finished.
// Oracle: search/grid_beam.py. Tested: tests/test_native.py::test_forced_phrases_are_found_as_in_pytorch.
std::vector<CandidateBeam> forced_beams(Sentence& sentence, Logits logits, bool must_end,
                                        Buffer<float>& buffer) {
    const Search& search = *sentence.search;
    const ForcedPhrases& forced = sentence.forced;
    const int forced_tokens = forced.tokens();
    std::vector<TopK> beams;
    for (int met = 0; met <= forced_tokens; met++)
        beams.emplace_back(2 * beam_width(met, forced_tokens, search.beam_size));
    int most_met = -1;
    Candidate meeting_most{};
    bool has_candidates = false;
    for (size_t origin = 0; origin < sentence.live.size(); origin++, logits.values += logits.count) {
        const Hypothesis& hypothesis = sentence.live[origin];
        const std::vector<bool> settled = forced.settled(hypothesis.ids);
        const int met = forced.tokens_met(hypothesis.ids, settled);
        const float end_logit = logits.values[logits.index(END)];
        TopK likeliest(2 * search.beam_size);
        const float log_sum = extend(logits, int(origin), hypothesis, must_end, search, likeliest, buffer);
        const float ended = end_logit - log_sum + hypothesis.total;
        if (met > most_met || (met == most_met && ended > meeting_most.total)) {
            most_met = met;
            meeting_most = {ended, int(origin), END, hypothesis.guidance};
        }
        std::vector<Candidate> candidates = likeliest.candidates;
        for (int32_t token : must_end ? Ids() : forced.next_tokens(hypothesis.ids)) {
            const auto is_token = [&](const Candidate& one) { return one.token == token; };
            const int index = logits.index(token);
            if (index < logits.count && std::none_of(candidates.begin(), candidates.end(), is_token))
                candidates.push_back(
                    {logits.values[index] - log_sum + hypothesis.total, int(origin), token});
        }
        const auto guidance = forced.are_guided() ? forced.guidance(hypothesis.ids, hypothesis.attention.back())
                                                  : ForcedPhrases::Guidance();
        Ids ids = hypothesis.ids;
        ids.push_back(END);
        for (Candidate& one : candidates) {
            if (!(one.total > -INFINITY) || (one.token == END && met < forced_tokens)) continue;
            const float added = guidance.of(one.token);
            one.total += added;
            one.guidance = hypothesis.guidance + added;
            ids.back() = one.token;
            beams[one.token == END ? met : forced.tokens_met(ids, settled)].offer(one);
            has_candidates = true;
        }
    }
    if (!has_candidates && sentence.finished.empty() && !std::isnan(meeting_most.total)) {
        const Hypothesis& origin = sentence.live[meeting_most.origin];
        const float score = meeting_most.total / search.length_normalization[sentence.step + 1];
        sentence.finished.push_back(
            {meeting_most.total, score, origin.guidance, origin.ids, {}, origin.attention});
    }
    std::vector<CandidateBeam> result;
    for (int met = 0; met <= forced_tokens; met++)
        result.push_back({beams[met].candidates, beam_width(met, forced_tokens, search.beam_size)});
    return result;
}

// Replace the hypotheses of a sentence by the best of their extensions in each beam, or change nothing if memory does not
// suffice. Oracle: search/beam.py. Tested:
// tests/test_native.py::test_it_stops_when_its_rule_says_so_in_plain_lists.
void advance(Sentence& sentence, const std::vector<CandidateBeam>& beams) {
    const Search& search = *sentence.search;
    const size_t width = search.beam_size, n_best = search.n_best;
    const int length = sentence.step + 1;  // of a hypothesis that ends now, END included
    std::vector<Hypothesis> live, ended;
    for (const CandidateBeam& beam : beams) {
        size_t kept = 0;
        for (size_t rank = 0; rank < beam.candidates.size() && kept < beam.width; rank++) {
            const Candidate& one = beam.candidates[rank];
            const float score = one.total / search.length_normalization[length];  // the length penalty
            const Hypothesis& origin = sentence.live[one.origin];
            Hypothesis next{one.total, score, one.guidance, origin.ids, {}, origin.attention};
            if (one.token != END) {
                next.ids.push_back(one.token);
                next.ancestry = origin.ancestry;
                live.push_back(std::move(next));
                kept++;
            } else if (rank < beam.width) {
                ended.push_back(std::move(next));
            }
        }
    }
    sentence.finished.reserve(width + 1);
    for (Hypothesis& next : ended) {
        auto place = sentence.finished.end();
        while (place != sentence.finished.begin() && next.score > (place - 1)->score) --place;
        sentence.finished.insert(place, std::move(next));
        if (sentence.finished.size() > width) sentence.finished.pop_back();
    }
    if (!sentence.forced.empty() && sentence.finished.size() >= n_best) {
        const auto is_below = [&](const Hypothesis& one) {
            return one.score <= sentence.finished[n_best - 1].score;
        };
        live.erase(std::remove_if(live.begin(), live.end(), is_below), live.end());
    }
    sentence.live = std::move(live);
    sentence.step++;
    if (sentence.live.empty()) {
        sentence.done = true;
    } else if (sentence.finished.size() >= n_best) {
        const bool enough = sentence.finished.size() == width;
        const int reached = enough ? length : search.max_lengths[sentence.number] + 1;
        const auto is_less = [](auto& one, auto& other) { return one.total < other.total; };
        const auto likeliest = std::max_element(sentence.live.begin(), sentence.live.end(), is_less);
        const float best_live = likeliest->total / search.length_normalization[reached];
        sentence.done = best_live <= sentence.finished[enough ? 0 : n_best - 1].score;
    }
}

// Write the n_best hypotheses of a finished sentence.
void write_hypotheses(const Sentence& sentence) {
    const Search& search = *sentence.search;
    for (int rank = 0; rank < search.n_best; rank++) {
        const size_t at = size_t(sentence.number) * search.n_best + rank;
        search.lengths[at] = -1;
        if (rank >= int(sentence.finished.size())) continue;
        const Hypothesis& one = sentence.finished[rank];
        search.lengths[at] = int32_t(one.ids.size());
        search.log_probs[at] = one.total - one.guidance;
        search.scores[at] = one.score;
        std::copy(one.ids.begin(), one.ids.end(),
                  search.output_ids + search.output_offsets[sentence.number] +
                      rank * (search.max_lengths[sentence.number] + 1));
        if (!search.attention) continue;
        const size_t tokens = search.source_tokens(sentence.number);
        float* rows = search.attention + search.attention_offsets[sentence.number] +
                      rank * (search.max_lengths[sentence.number] + 1) * tokens;
        for (const float* weights : one.attention) rows = std::copy_n(weights, tokens, rows);
    }
}

// Write the first tokens that all hypotheses of a running search share, for streaming: the
// tokens first, then their number. Oracle: search/trace.py, stable_prefixes. Tested:
// tests/test_engine.py::test_a_search_tells_what_all_its_hypotheses_share.
void write_stable_prefix(const Sentence& sentence) {
    const Search& search = *sentence.search;
    const std::vector<int32_t>& first = sentence.live[0].ids;
    size_t common = first.size();
    for (const auto* hypotheses : {&sentence.live, &sentence.finished})
        for (const Hypothesis& other : *hypotheses) {
            const size_t most = std::min(common, other.ids.size());
            const auto end = std::mismatch(first.begin(), first.begin() + most, other.ids.begin()).first;
            common = end - first.begin();
        }
    std::copy_n(first.begin(), common,
                search.stable_ids + search.output_offsets[sentence.number] / search.n_best);
    __atomic_store_n(&search.stable_lengths[sentence.number], int32_t(common), __ATOMIC_RELEASE);
}

// Encode sentences that a thread has taken.
// Tested: tests/test_native.py::test_neighbours_threads_and_batches_change_no_bit.
void encode(const Transformer& model, std::vector<Sentence>& sentences, Workspace& workspace) {
    std::vector<int32_t> ids;
    std::vector<int> begins{0};
    // Of the only sentence, or as many as ENCODED at least.
    const float* positions = sentences[0].search->source_positions;
    for (const Sentence& sentence : sentences) {
        const Search& search = *sentence.search;
        const int32_t* first = search.source_ids + search.source_offsets[sentence.number];
        ids.insert(ids.end(), first, first + search.source_tokens(sentence.number));
        begins.push_back(int(ids.size()));
    }
    auto sources = model.encode(ids.data(), begins, positions, workspace);
    for (size_t s = 0; s < sentences.size(); s++) {
        Sentence& sentence = sentences[s];
        const Search& search = *sentence.search;
        sentence.source = std::move(sources[s]);
        if (search.shortlist) {
            const int32_t* offsets = search.shortlist_offsets + sentence.number;
            sentence.output_projection =
                model.output_projection().select_outputs(search.shortlist + offsets[0],
                                                         offsets[1] - offsets[0]);
        }
        sentence.forced = search.forced_phrases(sentence.number);
        sentence.live.assign(1, {0, 0, 0, {}, {}, {}});
    }
}

// Extend all hypotheses of all sentences by one token, and write those of sentences that are done.
void step(const Transformer& model, std::vector<Sentence>& sentences, Workspace& workspace) {
    std::vector<Transformer::DecoderInput> rows;
    for (Sentence& sentence : sentences) {
        const Search& search = *sentence.search;
        const size_t layer_stride = size_t(sentence.rows()) * model.row_width();
        const float* position =
            search.target_positions + size_t(sentence.step) * model.settings.d_model;
        const size_t cached = model.settings.decoder_layers * layer_stride;
        const size_t tokens = sentence.needs_attention() ? search.source_tokens(sentence.number) : 0;
        sentence.kv_cache.push_back(
            std::unique_ptr<float[]>(new float[cached + sentence.rows() * tokens]));
        float *own = sentence.kv_cache.back().get(), *weights = own + cached;
        for (Hypothesis& one : sentence.live) {
            one.ancestry.push_back(own);
            own += model.row_width();
            if (tokens) one.attention.push_back(weights);
            rows.push_back({one.ids.empty() ? START : one.ids.back(), position, &sentence.source,
                            &one.ancestry, layer_stride, tokens ? weights : nullptr});
            weights += tokens;
        }
    }
    const float* features = model.decode(rows, workspace);
    float* logits = workspace.logits.reserve(rows.size() * model.output_projection().outputs);
    const bool with_shortlists = sentences[0].search->shortlist;  // all searches of an engine, or none
    if (!with_shortlists) model.output_projection()(features, int(rows.size()), logits);
    for (Sentence& sentence : sentences) {
        const Search& search = *sentence.search;
        const Linear& map = with_shortlists ? sentence.output_projection : model.output_projection();
        const int32_t* shortlist =
            with_shortlists ? search.shortlist + search.shortlist_offsets[sentence.number] : nullptr;
        if (shortlist) map(features, int(sentence.live.size()), logits);
        features += sentence.live.size() * map.inputs;
        const bool must_end = sentence.step >= search.max_lengths[sentence.number];
        const Logits first{logits, map.outputs, shortlist};
        logits += sentence.live.size() * map.outputs;
        advance(sentence, sentence.forced.empty()
                              ? extended_beam(sentence, first, must_end, workspace.weights)
                              : forced_beams(sentence, first, must_end, workspace.weights));
        if (sentence.done) write_hypotheses(sentence);
        else if (search.stable_lengths) write_stable_prefix(sentence);
    }
}

// Undo a step that ended with an exception, in the sentences that it has not extended.
void undo(std::vector<Sentence>& sentences) {
    for (Sentence& sentence : sentences) {
        sentence.kv_cache.resize(sentence.step);
        for (Hypothesis& one : sentence.live) {
            one.ancestry.resize(sentence.step);
            if (sentence.needs_attention()) one.attention.resize(sentence.step);
        }
    }
}

// As `changed.wait`, which GCC 12 compiles to a function that the libstdc++ of GCC 11 lacks, as many systems
// have it that can load the library of the wheel.
template <class Predicate>
void wait(std::condition_variable& changed, std::unique_lock<std::mutex>& lock, Predicate holds) {
    while (!holds()) pthread_cond_wait(changed.native_handle(), lock.mutex()->native_handle());
}

// Threads that search, and the searches that they share. Searches are taken in turns, sentence by sentence,
// so that a large one does not delay a small one. Tested: tests/test_engine.py.
class SearchEngine {
    const Transformer& model;
    const int max_rows;
    std::mutex mutex;
    std::condition_variable work, done;
    std::deque<Search*> waiting;   // with sentences that no thread has taken
    std::deque<Search*> finished;  // and not fetched by wait_finished
    int rows_waiting = 0, rows_running = 0;
    bool closing = false;
    std::atomic<int> nice{0};
    std::vector<std::thread> threads;

  public:
    SearchEngine(const Transformer& model, int workers, int max_rows) : model(model), max_rows(max_rows) {
        try {
            for (int worker = 0; worker < workers; worker++) threads.emplace_back([this] { run(); });
        } catch (...) {
            join();
            throw;
        }
    }

    ~SearchEngine() { join(); }

    // Threads end after the current step.
    void close() {
        {
            const std::lock_guard lock(mutex);
            closing = true;
        }
        work.notify_all();
        done.notify_all();
    }

    // Let the operating system prefer other threads to those of the engine, by so much (Linux: 0 to 19).
    void set_nice(int value) { nice = value; }

    void submit(Search& search) {
        {
            const std::lock_guard lock(mutex);
            search.unfinished = search.sentences;
            search.next_sentence = search.stopped = search.status = 0;
            waiting.push_back(&search);  // it may throw
            rows_waiting += search.rows_from(0);
        }
        if (search.sentences == 1) work.notify_one();
        else work.notify_all();
    }

    // Its sentences leave the batch after the current step.
    void cancel(Search& search) {
        const std::lock_guard lock(mutex);
        stop(search, OK);
    }

    // Wait for searches that are done, and write them to `searches`; how many they are, 0 once the engine is
    // closing. While many searches wait for rows, it waits for several: the caller, whose code the searches
    // have evicted from the processor's caches, then loads it once for all of them.
    int32_t wait_finished(Search** searches, int32_t capacity) {
        std::unique_lock lock(mutex);
        wait(done, lock, [this] { return closing || !finished.empty(); });
        done.wait_for(lock, LINGER, [this] { return closing || is_enough(); });
        const int32_t count = std::min(capacity, int32_t(finished.size()));
        std::copy_n(finished.begin(), count, searches);
        finished.erase(finished.begin(), finished.begin() + count);
        return count;
    }

  private:
    // Whether finished searches should not wait for others to finish.
    bool is_enough() const { return finished.size() >= TOGETHER || waiting.size() < QUEUED; }

    void join() {
        close();
        for (std::thread& thread : threads) thread.join();
    }

    // With the mutex: give up the sentences of a search that no thread has taken.
    void stop(Search& search, Status status) {
        if (search.stopped || !search.unfinished) return;
        search.stopped = true;
        search.status = status;
        const int left = search.sentences - search.next_sentence;
        rows_waiting -= search.rows_from(search.next_sentence);
        search.next_sentence = search.sentences;
        waiting.erase(std::remove(waiting.begin(), waiting.end(), &search), waiting.end());
        leave(search, left);
    }

    // With the mutex: so many sentences of a search are done or dropped.
    void leave(Search& search, int sentences) {
        if (!sentences || (search.unfinished -= sentences)) return;
        finished.push_back(&search);
        if (finished.size() == 1 || is_enough()) done.notify_one();
    }

    // Move sentences from the searches that wait to `taken`, for a thread with free rows. A thread without
    // sentences waits for some. A search that has its max_rows already is passed over: the rows that it leaves are for
    // others. Beside small searches, sentences of large ones join only at the `turn` of large ones.
    void take(const std::vector<Sentence>& own, bool turn, std::vector<Sentence>& taken) {
        std::unique_lock lock(mutex);
        if (own.empty()) wait(work, lock, [this] { return closing || rows_waiting; });
        int rows = 0;
        for (const Sentence& sentence : own) rows += sentence.rows();
        // Wait until a quarter of the rows is free, so that several sentences are encoded together.
        if (closing || !rows_waiting || rows * 4 > max_rows * 3) return;
        const int workers = int(threads.size());
        const int share = (rows_waiting + rows_running + workers - 1) / workers;
        const bool has_small =
            std::any_of(own.begin(), own.end(), [](auto& one) { return !one.search->is_large(); }) ||
            std::any_of(waiting.begin(), waiting.end(), [](auto* search) { return !search->is_large(); });
        int tokens = 0;
        for (size_t passed = 0; passed < waiting.size() && (!rows || rows < share);) {
            Search* search = waiting.front();
            waiting.pop_front();
            const int own_rows = rows_of(*search, own) + rows_of(*search, taken);
            const int more = search->rows[search->next_sentence];
            const bool fits = rows + more <= max_rows && own_rows + more <= search->max_rows &&
                              (turn || !has_small || !search->is_large());
            if (rows && !fits) {
                waiting.push_back(search);
                passed++;
                continue;
            }
            tokens += search->source_tokens(search->next_sentence);
            if (!taken.empty() && tokens > ENCODED) {
                waiting.push_front(search);
                break;
            }
            passed = 0;
            Sentence sentence;
            sentence.search = search;
            sentence.number = search->next_sentence++;
            taken.push_back(std::move(sentence));
            rows += more;
            rows_waiting -= more;
            rows_running += more;
            if (search->next_sentence < search->sentences) waiting.push_back(search);
        }
    }

    // Hypotheses of a search among those of these sentences.
    static int rows_of(const Search& search, const std::vector<Sentence>& sentences) {
        int rows = 0;
        for (const Sentence& one : sentences) rows += one.search == &search ? one.rows() : 0;
        return rows;
    }

    // Remove sentences that are done, and those of searches that were stopped.
    void release(std::vector<Sentence>& sentences) {
        const std::lock_guard lock(mutex);
        const auto leaves = [&](const Sentence& sentence) {
            Search& search = *sentence.search;
            if (!sentence.done && !search.stopped) return false;
            rows_running -= sentence.rows();
            leave(search, 1);
            return true;
        };
        sentences.erase(std::remove_if(sentences.begin(), sentences.end(), leaves), sentences.end());
    }

    // There is not enough memory for the sentences that are taken and those that run: the search of the largest
    // fails.
    void fail_largest(std::vector<Sentence>& taken, std::vector<Sentence>& running) {
        const auto memory_size = [](const Sentence& sentence) {
            const int32_t* offsets = sentence.search->source_offsets + sentence.number;
            return size_t(offsets[1] - offsets[0]) + size_t(sentence.step) * sentence.rows();
        };
        const Sentence* largest = nullptr;
        for (const auto* sentences : {&taken, &running})
            for (const Sentence& sentence : *sentences)
                if (!largest || memory_size(sentence) > memory_size(*largest)) largest = &sentence;
        {
            const std::lock_guard lock(mutex);
            stop(*largest->search, OUT_OF_MEMORY);
        }
        release(taken);
        release(running);
    }

    // The first exception of a thread allocates thread-local memory, and ends the process if that fails.
    // Tested: tests/test_engine.py::test_a_search_that_memory_does_not_suffice_for_fails_alone.
    // `always` hides from the compiler that this throws: it would take all that follows for rarely executed
    // and not optimise it.
    static void prepare_exceptions() {
        const volatile bool always = true;
        try {
            if (always) throw std::bad_alloc();
        } catch (const std::exception&) {
        }
    }

    // Move the sentences of large searches to `held` if there are both kinds; whether there are.
    static bool hold_large(std::vector<Sentence>& sentences, std::vector<Sentence>& held) {
        const auto large = std::stable_partition(sentences.begin(), sentences.end(),
                                                 [](auto& one) { return !one.search->is_large(); });
        if (large == sentences.begin() || large == sentences.end()) return false;
        std::move(large, sentences.end(), std::back_inserter(held));
        sentences.erase(large, sentences.end());
        return true;
    }

    void run() {
        prepare_exceptions();
        Workspace workspace;
        std::vector<Sentence> sentences, taken, held;  // they never grow beyond their first capacity
        for (auto* all : {&sentences, &taken, &held}) all->reserve(max_rows);
        const auto give_back = [&] {
            std::move(held.begin(), held.end(), std::back_inserter(sentences));
            held.clear();
        };
        using Clock = std::chrono::steady_clock;
        Clock::duration owed{};  // time of small searches until large ones have their turn
        for ([[maybe_unused]] int applied = 0; !is_closing();) {
            const bool turn = owed <= Clock::duration::zero();
            take(sentences, turn, taken);
            const auto started = Clock::now();
#ifdef __linux__  // where a thread has a priority of its own
            if (applied != nice) setpriority(PRIO_PROCESS, id_t(syscall(SYS_gettid)), applied = nice);
#endif
            while (!taken.empty()) {
                try {
                    encode(model, taken, workspace);
                    std::move(taken.begin(), taken.end(), std::back_inserter(sentences));
                    taken.clear();
                } catch (const std::exception&) {
                    fail_largest(taken, sentences);
                }
            }
            if (sentences.empty()) continue;
            const bool mixed = hold_large(sentences, held);
            if (turn) give_back();
            try {
                step(model, sentences, workspace);
                give_back();
                release(sentences);
                const auto spent = Clock::now() - started;
                owed = !mixed ? Clock::duration::zero() : turn ? SMALL_SHARE * spent : owed - spent;
            } catch (const std::exception&) {
                give_back();
                undo(sentences);
                fail_largest(taken, sentences);
            }
        }
    }

    bool is_closing() {
        const std::lock_guard lock(mutex);
        return closing;
    }
};

}  // namespace

// The functions that decoder.py and engine.py call. They throw nothing.
// Tested: tests/test_native.py::test_structures_of_another_size_are_refused, ::test_parameters_go_by_name,
// ::test_a_lack_of_memory_gets_a_sentence.
extern "C" {

size_t dragoman_sizeof_transformer_settings() { return sizeof(TransformerSettings); }
size_t dragoman_sizeof_parameter() { return sizeof(Parameter); }
size_t dragoman_sizeof_search() { return sizeof(Search); }

// Hypotheses that a thread extends at once: enough for full speed, few enough for the L2 cache, and full
// tiles.
int32_t dragoman_max_rows() { return amx_allowed() ? 3 * TILE : 36; }

// A packed model, to be freed by dragoman_free_model. If it fails: null, with a sentence in `error` unless
// there is not enough memory. The sizes are those of the caller's structures.
void* dragoman_load_model(const TransformerSettings* settings, size_t settings_size,
                          const Parameter* parameters, size_t parameter_size, int32_t count, char* error,
                          size_t error_size) {
    std::snprintf(error, error_size, "%s", "");
    if (settings_size != sizeof *settings || parameter_size != sizeof *parameters) {
        std::snprintf(error, error_size, "beam_search.cpp is of another version than decoder.py.");
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

// Threads that search with a model, which must outlive them; to be freed by dragoman_free_engine. Null if
// there is not enough memory.
void* dragoman_new_engine(const void* model, int32_t workers, int32_t max_rows) {
    try {
        return new SearchEngine(*static_cast<const Transformer*>(model), workers, max_rows);
    } catch (const std::exception&) {
        return nullptr;
    }
}

void dragoman_set_nice(void* engine, int32_t nice) { static_cast<SearchEngine*>(engine)->set_nice(nice); }

// Its threads end after the current step, and dragoman_wait_finished returns 0.
void dragoman_close_engine(void* engine) { static_cast<SearchEngine*>(engine)->close(); }

// Waits for the threads. To be called by the thread that called dragoman_wait_finished.
void dragoman_free_engine(void* engine) { delete static_cast<SearchEngine*>(engine); }

// Begin a search. It and its arrays must live until dragoman_wait_finished gives it back.
int32_t dragoman_submit(void* engine, Search* search, size_t size) {
    if (size != sizeof *search) return WRONG_SIZE;
    try {
        static_cast<SearchEngine*>(engine)->submit(*search);
        return OK;
    } catch (const std::exception&) {
        return OUT_OF_MEMORY;
    }
}

void dragoman_cancel(void* engine, Search* search) { static_cast<SearchEngine*>(engine)->cancel(*search); }

// Wait for searches that are done or cancelled, at most `capacity`; how many they are, 0 when the engine is
// closing.
int32_t dragoman_wait_finished(void* engine, Search** searches, int32_t capacity) {
    return static_cast<SearchEngine*>(engine)->wait_finished(searches, capacity);
}
}
