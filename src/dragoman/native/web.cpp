// The decoder in a browser, compiled to WebAssembly: an instance has one model, and searches in its only thread.
//
// It is one translation unit with beam_search.cpp, so that the search is written once; the linker leaves the threads
// out. Oracle: decoder.py. Tested: tests/test_web.py.
#include "beam_search.cpp"

namespace {

// Parts of a file, each padded to four bytes. Nothing in it is believed: it may come from anywhere.
class Parts {
    const char *at, *end;

  public:
    Parts(const std::vector<char>& file) : at(file.data()), end(at + file.size()) {}

    bool empty() const { return at == end; }

    template <class T>
    const T* take(size_t count) {
        const size_t left = size_t(end - at);
        if (count > left / sizeof(T)) throw std::invalid_argument("The model's file is cut off.");
        return reinterpret_cast<const T*>(std::exchange(at, at + std::min(left, (count * sizeof(T) + 3) / 4 * 4)));
    }
};

enum Kind : int32_t { FLOATS = 0, BYTES = 1, BYTES_AND_RESTS = 2 };  // as interop/web.py

struct Table {
    std::vector<float> numbers;
    int32_t rows = 0, columns = 0;

    // Integers of 8 bits, and what is left in 16 bits below them, are multiplied by the scale of their row.
    void read(Kind kind, Parts& parts) {
        const size_t count = size_t(rows) * columns;
        const float* first = parts.take<float>(kind == FLOATS ? count : rows);
        if (kind == FLOATS) return numbers.assign(first, first + count);
        const int8_t* integers = parts.take<int8_t>(count);
        const int16_t* rests = kind == BYTES_AND_RESTS ? parts.take<int16_t>(count) : nullptr;
        numbers.resize(count);
        for (size_t i = 0; i < count; i++) {
            const int32_t whole = integers[i] * 65536 + (rests ? rests[i] : 0);
            numbers[i] = float(whole) / 65536 * first[i / columns];
        }
    }
};

// The model of a file: settings, then parameters.
struct WebModel {
    std::map<std::string, Table> tables;
    std::unique_ptr<Transformer> transformer;

    // The source's, unless both sides share the target's.
    const Table& source_table(const std::string& name) const {
        const auto own = tables.find("source_" + name);
        return own == tables.end() ? tables.at("target_" + name) : own->second;
    }
};

bool is_positions(const std::string& name) { return name.find("_positions.") != name.npos; }
bool is_embedding(const std::string& name) { return name.find("_embedding.") != name.npos; }

// Throws std::invalid_argument with a sentence.
std::unique_ptr<WebModel> read_model(const std::vector<char>& file) {
    Parts parts(file);
    const TransformerSettings settings = *parts.take<TransformerSettings>(1);
    auto model = std::make_unique<WebModel>();
    std::vector<Parameter> parameters;
    bool fits = settings.heads > 0 && settings.d_k % LANES == 0 && settings.d_v % LANES == 0;
    while (!parts.empty()) {
        const int32_t *head = parts.take<int32_t>(4), name_size = head[3];
        if (std::min({head[0], head[1], name_size}) <= 0 || int64_t(head[0]) * head[1] >= 1 << 28)
            throw std::invalid_argument("The model's file is damaged.");
        const auto place = model->tables.try_emplace({parts.take<char>(name_size), size_t(name_size)}).first;
        Table& table = place->second;
        table.rows = head[0], table.columns = head[1];
        table.read(Kind(head[2]), parts);
        if (is_positions(place->first)) fits = fits && table.columns == settings.d_model;
        else
            parameters.push_back({place->first.c_str(), table.numbers.data(), table.rows, table.columns});
    }
    if (!fits || !model->tables.count("target_positions.table"))
        throw std::invalid_argument("The model's settings do not fit its parameters.");
    model->transformer =
        std::make_unique<Transformer>(settings, Parameters(parameters.data(), int(parameters.size())));
    for (auto& [name, table] : model->tables)  // the rest is packed
        if (!is_positions(name) && !is_embedding(name)) table.numbers = {};
    return model;
}

// What a search of one sentence needs. Its ids follow, those of the source with END, then those of the prefix; then
// the divisors of log-probabilities for each length up to max_length + 1.
struct Request {
    int32_t beam_size, n_best, min_length, max_length, source_length, prefix_length;
};

// The number of hypotheses, best first, and each one's length and ids.
std::vector<int32_t> translate(const WebModel& model, const std::vector<char>& bytes) {
    Parts parts(bytes);
    const Request request = *parts.take<Request>(1);
    const int32_t* source = parts.take<int32_t>(request.source_length);
    const int32_t* prefix = parts.take<int32_t>(request.prefix_length);
    const float* normalization = parts.take<float>(request.max_length + 2);
    const Table &source_positions = model.source_table("positions.table"),
                &target_positions = model.tables.at("target_positions.table");
    const auto is_unknown = [&, vocabulary = model.source_table("embedding.weight").rows](int32_t id) {
        return id < 0 || id >= vocabulary;
    };
    if (request.source_length > source_positions.rows || request.max_length >= target_positions.rows)
        throw std::invalid_argument("The sentence is too long for this model.");
    if (std::any_of(source, source + request.source_length, is_unknown))
        throw std::invalid_argument("The vocabulary does not fit the model.");

    const int32_t source_offsets[]{0, request.source_length}, rows[]{request.beam_size};
    const int64_t output_offsets[]{0};
    const size_t n_best = request.n_best;
    std::vector<int32_t> ids(n_best * (request.max_length + 1)), lengths(n_best), result{0};
    std::vector<float> log_probs(n_best), scores(n_best);
    Search search{};
    search.sentences = 1, search.beam_size = search.max_rows = request.beam_size, search.n_best = request.n_best;
    search.min_length = request.min_length, search.prefix_length = request.prefix_length, search.prefix = prefix;
    search.source_ids = source, search.source_offsets = source_offsets, search.rows = rows;
    search.max_lengths = &request.max_length, search.length_normalization = normalization;
    search.source_positions = source_positions.numbers.data();
    search.target_positions = target_positions.numbers.data();
    search.output_offsets = output_offsets, search.output_ids = ids.data(), search.lengths = lengths.data();
    search.log_probs = log_probs.data(), search.scores = scores.data();

    static Workspace workspace;
    std::vector<Sentence> sentences(1);
    sentences[0].search = &search, sentences[0].number = 0;
    encode(*model.transformer, sentences, workspace);
    while (!sentences[0].done) step(*model.transformer, sentences, workspace);
    for (size_t rank = 0; rank < n_best && lengths[rank] >= 0; rank++) {
        const int32_t* first = ids.data() + rank * (request.max_length + 1);
        result[0]++;
        result.push_back(lengths[rank]);
        result.insert(result.end(), first, first + lengths[rank]);
    }
    return result;
}

std::vector<char> input;
std::unique_ptr<WebModel> model;
std::vector<int32_t> output;
std::string error;

// Whether `work` succeeds; `error` says why not.
template <class Work>
bool succeeds(Work work) {
    try {
        work();
        return true;
    } catch (const std::invalid_argument& reason) {
        error = reason.what();
    } catch (const std::exception&) {
        error = "There is not enough memory.";
    }
    return false;
}

}  // namespace

// The functions that dragoman.js calls, by these names. They throw nothing; null if they fail.
#define EXPORT(name) extern "C" __attribute__((export_name(name)))

// Room for what the next call reads.
EXPORT("input") char* web_input(size_t size) {
    const auto make_room = [&] {
        input.reserve(size + 1);  // of nothing, too, there is a place
        input.resize(size);
    };
    return succeeds(make_room) ? input.data() : nullptr;
}

// The instance has the model of the input from now on.
EXPORT("load") const void* web_load() {
    const bool loaded = succeeds([] { model = read_model(std::exchange(input, {})); });
    return loaded ? model.get() : nullptr;
}

// The hypotheses for the request in the input, until the next call.
EXPORT("translate") const int32_t* web_translate() {
    return succeeds([] { output = translate(*model, input); }) ? output.data() : nullptr;
}

// Why the last call failed.
EXPORT("error") const char* web_error() { return error.c_str(); }
