// Beam search (section 6.1) as in dragoman/search/beam.py, for many sentences at once: where one is done, the next takes its place.
#include <exception>
#include <memory>

#include "transformer.h"

using namespace dragoman;

namespace {

constexpr int PAD = 0, END = 3, START = 2;  // as dragoman/model/symbols.py
constexpr int BLOCK = 64;                   // tokens that are looked at as one, by their best

// As decoder.py's Job. Sentences are numbered; `next` is the first that no thread has taken.
struct Job {
    int32_t sentences, beam_size, n_best, rows_at_once;
    int32_t min_length, no_repeat_ngram, ban_count, prefix_length;  // the rules of search/constraints.py
    const int32_t *bans, *ban_begins, *prefix;                      // sequence b is bans[ban_begins[b]] to bans[ban_begins[b + 1]]
    const int32_t *ids, *begins;       // sentence s is ids[begins[s]] to ids[begins[s + 1]]
    const int32_t* longest;            // tokens that its translation may have before END
    const int32_t *listed, *lists;     // the tokens that sentence s may have are listed[lists[s]] to listed[lists[s + 1]]; null for all
    const float *source_positions, *target_positions;
    const float* normalizer;           // what a log-probability is divided by, for each length, END included
    const int64_t* places;             // where its n_best hypotheses are written in `written`, each longest + 1 wide
    int32_t *written, *lengths;        // lengths [sentences][n_best], END not counted; -1 for none
    float *log_p, *scores;             // [sentences][n_best]
    int32_t next, stop;                // both are written by several threads
};

struct Hypothesis {
    float log_p, score;
    std::vector<int32_t> ids;
    std::vector<float*> line;  // where the keys and values of START and of its tokens are, in the first layer
};

struct Candidate {
    float total;
    int origin, token;
};

struct Sentence {
    int number, step = 0;
    Transformer::Source source;
    Linear logits;  // to the tokens that are listed, if there is a list
    std::vector<std::unique_ptr<float[]>> past;  // of each step: keys and values of the beam, layer by layer
    std::vector<Hypothesis> live, finished;      // best first
};

// The best `most` extensions seen, best first; of equal ones the first.
class Best {
    size_t most;

  public:
    std::vector<Candidate> found;

    explicit Best(size_t most) : most(most) { found.reserve(most + 1); }
    float least() const { return found.size() < most ? -INFINITY : found.back().total; }
    void offer(const Candidate& one) {
        if (!(one.total > least())) return;
        auto place = found.end();
        while (place != found.begin() && one.total > (place - 1)->total) --place;
        found.insert(place, one);
        if (found.size() > most) found.pop_back();
    }
};

// The logits of a step: those of `listed` tokens, which are in order and of which END is one, or of all.
struct Logits {
    float* of;
    int count;
    const int32_t* listed;

    int token(int place) const { return listed ? listed[place] : place; }
    int place(int token) const {  // `count` for one that is not listed
        if (!listed) return token;
        const int32_t* found = std::lower_bound(listed, listed + count, token);
        return found != listed + count && *found == token ? int(found - listed) : count;
    }
    void forbid(int token) {
        if (const int at = place(token); at < count) of[at] = -INFINITY;
    }
};

// Forbid what the rules forbid after these tokens, as search/constraints.py: where they leave nothing, END.
void apply_rules(Logits logits, const std::vector<int32_t>& ids, const Job& job) {
    const int written = int(ids.size()), end = logits.place(END), size = job.no_repeat_ngram;
    const float of_end = logits.of[end];
    const auto written_last = [&](const int32_t* tokens, int count) {
        return count <= written && std::equal(tokens, tokens + count, ids.end() - count);
    };
    if (written < job.min_length) logits.forbid(END);
    if (written < job.prefix_length) {
        const int next = logits.place(job.prefix[written]);
        for (int at = 0; at < logits.count; at++)
            if (at != next) logits.of[at] = -INFINITY;
    }
    for (int ban = 0; ban < job.ban_count; ban++) {
        const int32_t *first = job.bans + job.ban_begins[ban], *last = job.bans + job.ban_begins[ban + 1] - 1;
        if (written_last(first, int(last - first))) logits.forbid(*last);
    }
    for (int first = 0; size && first + size <= written; first++)
        if (written_last(&ids[first], size - 1)) logits.forbid(ids[first + size - 1]);
    if (std::none_of(logits.of, logits.of + logits.count, [](float logit) { return logit > -INFINITY; })) logits.of[end] = of_end;
}

// Offer all extensions of a hypothesis that the rules allow; END alone where it must end.
void extend(Logits logits, int origin, const Hypothesis& hypothesis, bool must_end, const Job& job, Best& best, Buffer<float>& room) {
    const int count = logits.count, blocks = (count + BLOCK - 1) / BLOCK;
    const float before = hypothesis.log_p;
    float *highest = room.of(blocks), largest = -INFINITY, sum = 0;
    for (int token : {PAD, START}) logits.forbid(token);  // they are never written
    for (int block = 0; block < blocks; block++) {
        const int last = std::min(count, (block + 1) * BLOCK);
        highest[block] = largest_of(logits.of + block * BLOCK, last - block * BLOCK);
        largest = std::max(largest, highest[block]);
    }
#pragma omp simd reduction(+ : sum)
    for (int at = 0; at < count; at++) sum += exponential(logits.of[at] - largest);
    const float all = largest + std::log(sum);
    if (must_end) return best.offer({logits.of[logits.place(END)] - all + before, origin, END});
    if (job.min_length || job.no_repeat_ngram || job.ban_count || job.prefix_length) apply_rules(logits, hypothesis.ids, job);
    for (int block = 0; block < blocks; block++)
        if (highest[block] - all + before > best.least())
            for (int at = block * BLOCK; at < std::min(count, (block + 1) * BLOCK); at++)
                best.offer({logits.of[at] - all + before, origin, logits.token(at)});
}

// Let the hypotheses of a sentence become the best of their extensions. Whether the sentence is done.
bool advance(Sentence& sentence, const std::vector<Candidate>& extensions, const Job& job) {
    const size_t width = job.beam_size;
    const int length = sentence.step + 1;  // of a hypothesis that ends now, END included
    std::vector<Hypothesis> live;
    for (size_t rank = 0; rank < extensions.size() && live.size() < width; rank++) {
        const Candidate& one = extensions[rank];
        Hypothesis next{one.total, one.total / job.normalizer[length], sentence.live[one.origin].ids, {}};
        if (one.token != END) {
            next.ids.push_back(one.token);
            next.line = sentence.live[one.origin].line;
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
    const float best = sentence.live[0].log_p / job.normalizer[job.longest[sentence.number] + 1];
    const size_t n_best = job.n_best;
    return sentence.finished.size() >= n_best && best <= sentence.finished[n_best - 1].score;
}

void write(const Sentence& sentence, const Job& job) {
    for (int rank = 0; rank < job.n_best; rank++) {
        const size_t at = size_t(sentence.number) * job.n_best + rank;
        job.lengths[at] = -1;
        if (rank >= int(sentence.finished.size())) continue;
        const Hypothesis& one = sentence.finished[rank];
        job.lengths[at] = int32_t(one.ids.size());
        job.log_p[at] = one.log_p;
        job.scores[at] = one.score;
        std::copy(one.ids.begin(), one.ids.end(), job.written + job.places[sentence.number] + rank * (job.longest[sentence.number] + 1));
    }
}

// Take the next sentences and read them.
void admit(const Transformer& model, Job& job, std::vector<Sentence>& sentences, Room& room) {
    const int wanted = job.rows_at_once / job.beam_size - int(sentences.size());
    if (wanted <= 0) return;
    const int first = __atomic_fetch_add(&job.next, wanted, __ATOMIC_RELAXED), last = std::min(first + wanted, job.sentences);
    if (first >= last) return;
    const std::vector<int> begins(job.begins + first, job.begins + last + 1);
    auto sources = model.encode(job.ids, begins, job.source_positions, room);
    for (int number = first; number < last; number++) {
        Sentence sentence;
        sentence.number = number;
        sentence.source = std::move(sources[number - first]);
        if (job.listed) sentence.logits = model.logits().only(job.listed + job.lists[number], job.lists[number + 1] - job.lists[number]);
        sentence.live.push_back({0, 0, {}, {}});
        sentences.push_back(std::move(sentence));
    }
}

// One more token for all.
void step(const Transformer& model, const Job& job, std::vector<Sentence>& sentences, Room& room) {
    std::vector<Transformer::Row> rows;
    for (Sentence& sentence : sentences) {
        const size_t layer = size_t(job.beam_size) * model.row_width();
        sentence.past.emplace_back(new float[model.sizes.decoder_layers * layer]);
        float* own = sentence.past.back().get();
        for (Hypothesis& one : sentence.live) {
            one.line.push_back(own);
            own += model.row_width();
            rows.push_back({one.ids.empty() ? START : one.ids.back(), sentence.step, &sentence.source, &one.line, layer});
        }
    }
    const float* features = model.decode(rows, job.target_positions, room);
    float* logits = room.logits.of(rows.size() * model.logits().outputs);
    if (!job.listed) model.logits()(features, int(rows.size()), logits);
    std::vector<bool> done;
    for (Sentence& sentence : sentences) {
        const Linear& map = job.listed ? sentence.logits : model.logits();
        const int32_t* listed = job.listed ? job.listed + job.lists[sentence.number] : nullptr;
        if (listed) map(features, int(sentence.live.size()), logits);
        features += sentence.live.size() * map.inputs;
        Best best(2 * job.beam_size);
        const bool must_end = sentence.step >= job.longest[sentence.number];
        for (size_t origin = 0; origin < sentence.live.size(); origin++, logits += map.outputs)
            extend({logits, map.outputs, listed}, int(origin), sentence.live[origin], must_end, job, best, room.weights);
        done.push_back(advance(sentence, best.found, job));
        if (done.back()) write(sentence, job);
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

// What decoder.py calls. Nothing is thrown: null, or 1 where memory does not suffice.
extern "C" {

// Hypotheses that a thread extends together: enough for full speed, few enough for the second cache, and tiles that are full.
int32_t dragoman_rows_at_once() { return tiles_allowed() ? 3 * TILE : 36; }

void* dragoman_load(const Sizes* sizes, const Matrix* matrices, int32_t matrix_count, const Matrix* norms, int32_t norm_count,
                    const float* source_embedding, const float* target_embedding) {
    try {
        return new Transformer(*sizes, matrices, matrix_count, norms, norm_count, source_embedding, target_embedding);
    } catch (const std::exception&) {
        return nullptr;
    }
}

void dragoman_free(void* model) { delete static_cast<Transformer*>(model); }

// Work until no sentence is left, or `stop` is set. Any number of threads may work at one job.
int32_t dragoman_work(const void* transformer, Job* job) {
    const auto& model = *static_cast<const Transformer*>(transformer);
    try {
        thread_local Room room;
        std::vector<Sentence> sentences;
        while (!__atomic_load_n(&job->stop, __ATOMIC_RELAXED)) {
            if (sentences.size() * job->beam_size * 4 <= size_t(job->rows_at_once) * 3) admit(model, *job, sentences, room);
            if (sentences.empty()) return 0;
            step(model, *job, sentences, room);
        }
        return 0;
    } catch (const std::exception&) {
        return 1;
    }
}
}
