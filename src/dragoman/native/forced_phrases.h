// Which phrases of a grid beam search a hypothesis has met (Hokamp and Liu 2017), and where attention wants them.
//
// Oracle: search/grid_beam.py. Tested: tests/test_native.py::test_forced_phrases_are_found_as_in_pytorch.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

namespace dragoman {

using Ids = std::vector<int32_t>;

constexpr double BEGIN_WEIGHT = 3, OTHER_WEIGHT = 1, MIN_ATTENTION = 0.01;  // as in search/grid_beam.py

struct Phrase {
    std::vector<Ids> forms;
    Ids places;  // the tokens of the source that it translates, if they are known

    int tokens() const {
        size_t size = 0;
        for (const Ids& form : forms) size = std::max(size, form.size());
        return int(size);
    }
};

// A phrase occurs in one of its forms. Tokens that continue a word have a 1 in `continuing`: a form before one
// of them is the beginning of a longer word.
struct ForcedPhrases {
    std::vector<Phrase> phrases;
    const uint8_t* continuing = nullptr;

    bool empty() const { return phrases.empty(); }

    bool are_guided() const {
        return std::any_of(phrases.begin(), phrases.end(), [](auto& phrase) { return !phrase.places.empty(); });
    }

    int tokens() const {
        int sum = 0;
        for (const Phrase& phrase : phrases) sum += phrase.tokens();
        return sum;
    }

    bool is_inside_word(const Ids& ids, size_t first, const Ids& form) const {
        return first > 0 && continuing[form[0]] && continuing[ids[first - 1]];
    }

    // Whether the form is at a place, neither as the beginning nor as the end of a longer word.
    bool is_at(const Ids& ids, size_t first, const Ids& form) const {
        const size_t last = first + form.size();
        return std::equal(form.begin(), form.end(), ids.begin() + first) &&
               !(last < ids.size() && continuing[ids[last]]) && !is_inside_word(ids, first, form);
    }

    // Whether the form is in the ids, and ends at `end` at least.
    bool occurs(const Ids& ids, const Ids& form, size_t end) const {
        const size_t begin = end > form.size() ? end - form.size() : 0;
        for (size_t first = begin; first + form.size() <= ids.size(); first++)
            if (is_at(ids, first, form)) return true;
        return false;
    }

    bool has(const Ids& ids, const Phrase& phrase, size_t end = 0) const {
        return std::any_of(phrase.forms.begin(), phrase.forms.end(),
                           [&](const Ids& form) { return occurs(ids, form, end); });
    }

    // For each phrase whether it occurs before the last token, so that no further token changes it.
    std::vector<bool> settled(const Ids& ids) const {
        std::vector<bool> result;
        for (const Phrase& phrase : phrases)
            result.push_back(std::any_of(phrase.forms.begin(), phrase.forms.end(), [&](const Ids& form) {
                for (size_t first = 0; first + form.size() < ids.size(); first++)
                    if (is_at(ids, first, form)) return true;
                return false;
            }));
        return result;
    }

    // How many of the form's first tokens the ids end with; not all of them, and none inside a word.
    int matched_prefix(const Ids& ids, const Ids& form) const {
        for (size_t count = std::min(form.size() - 1, ids.size()); count > 0; count--)
            if (std::equal(form.begin(), form.begin() + count, ids.end() - count) &&
                !is_inside_word(ids, ids.size() - count, form))
                return int(count);
        return 0;
    }

    // Whether the ids end inside of a form of a phrase that does not occur yet.
    bool is_begun(const Ids& ids, const Phrase& phrase) const {
        return !has(ids, phrase) && std::any_of(phrase.forms.begin(), phrase.forms.end(),
                                                [&](const Ids& form) { return matched_prefix(ids, form); });
    }

    // The tokens of all phrases that occur, and of the longest phrase prefix at the end of the ids.
    // `settled` is that of the ids, or of the ids without their last token.
    int tokens_met(const Ids& ids, const std::vector<bool>& settled) const {
        int completed = 0, begun = 0;
        for (size_t p = 0; p < phrases.size(); p++) {
            const Phrase& phrase = phrases[p];
            if (settled[p] || has(ids, phrase, ids.empty() ? 0 : ids.size() - 1)) {
                completed += phrase.tokens();
                continue;
            }
            for (const Ids& form : phrase.forms)
                if (const int matched = matched_prefix(ids, form))
                    begun = std::max(begun, phrase.tokens() - int(form.size()) + matched);
        }
        return completed + begun;
    }

    // The tokens that would begin or continue a form of a phrase that does not occur yet.
    Ids next_tokens(const Ids& ids) const {
        Ids tokens;
        for (const Phrase& phrase : phrases)
            if (!has(ids, phrase))
                for (const Ids& form : phrase.forms)
                    tokens.insert(tokens.end(), {form[0], form[matched_prefix(ids, form)]});
        return tokens;
    }

    // What tokens add to the rank of a hypothesis: those that begin a phrase, and all others.
    struct Guidance {
        struct Gate {
            const Phrase* phrase;
            double begins, others;
        };
        std::vector<Gate> gates;

        float of(int32_t token) const {
            double sum = 0;
            for (const Gate& gate : gates)
                sum += std::any_of(gate.phrase->forms.begin(), gate.phrase->forms.end(),
                                   [&](const Ids& form) { return form[0] == token; })
                           ? gate.begins
                           : gate.others;
            return float(sum);
        }
    };

    // By the attention of the hypothesis, which has these ids, to the words that phrases translate.
    Guidance guidance(const Ids& ids, const float* attention) const {
        Guidance result;
        for (const Phrase& phrase : phrases) {
            if (phrase.places.empty() || is_begun(ids, phrase)) continue;
            double weight = 0;
            for (int32_t place : phrase.places) weight += attention[place];
            weight = std::min(std::max(weight, MIN_ATTENTION), 1 - MIN_ATTENTION);
            result.gates.push_back({&phrase, BEGIN_WEIGHT * std::log(weight), OTHER_WEIGHT * std::log(1 - weight)});
        }
        return result;
    }
};

}  // namespace dragoman
