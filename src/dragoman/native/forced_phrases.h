// Which phrases of a grid beam search a hypothesis has met (Hokamp and Liu 2017).
//
// Oracle: search/grid_beam.py. Tested: tests/test_native.py::test_forced_phrases_are_found_as_in_pytorch.
#pragma once
#include <algorithm>
#include <cstdint>
#include <vector>

namespace dragoman {

using Ids = std::vector<int32_t>;

// A phrase occurs in one of its forms. Tokens that continue a word have a 1 in `continuing`: a form before one
// of them is the beginning of a longer word.
struct ForcedPhrases {
    std::vector<std::vector<Ids>> phrases;
    const uint8_t* continuing = nullptr;

    bool empty() const { return phrases.empty(); }

    static int longest(const std::vector<Ids>& forms) {
        size_t size = 0;
        for (const Ids& form : forms) size = std::max(size, form.size());
        return int(size);
    }

    int tokens() const {
        int sum = 0;
        for (const auto& forms : phrases) sum += longest(forms);
        return sum;
    }

    bool is_inside_word(const Ids& ids, size_t first, const Ids& form) const {
        return first > 0 && continuing[form[0]] && continuing[ids[first - 1]];
    }

    // Whether the form is in the ids, neither as the beginning nor as the end of a longer word.
    bool occurs(const Ids& ids, const Ids& form) const {
        for (size_t first = 0; first + form.size() <= ids.size(); first++) {
            const size_t last = first + form.size();
            if (std::equal(form.begin(), form.end(), ids.begin() + first) &&
                !(last < ids.size() && continuing[ids[last]]) && !is_inside_word(ids, first, form))
                return true;
        }
        return false;
    }

    bool occurs(const Ids& ids, const std::vector<Ids>& forms) const {
        return std::any_of(forms.begin(), forms.end(), [&](const Ids& form) { return occurs(ids, form); });
    }

    // How many of the form's first tokens the ids end with; not all of them, and none inside a word.
    int matched_prefix(const Ids& ids, const Ids& form) const {
        for (size_t count = std::min(form.size() - 1, ids.size()); count > 0; count--)
            if (std::equal(form.begin(), form.begin() + count, ids.end() - count) &&
                !is_inside_word(ids, ids.size() - count, form))
                return int(count);
        return 0;
    }

    // The tokens of all phrases that occur, and of the longest phrase prefix at the end of the ids.
    int tokens_met(const Ids& ids) const {
        int completed = 0, unfinished = 0;
        for (const auto& forms : phrases) {
            const int size = longest(forms);
            if (occurs(ids, forms)) {
                completed += size;
                continue;
            }
            for (const Ids& form : forms)
                if (const int matched = matched_prefix(ids, form))
                    unfinished = std::max(unfinished, size - int(form.size()) + matched);
        }
        return completed + unfinished;
    }

    // The tokens that would begin or continue a form of a phrase that does not occur yet.
    Ids next_tokens(const Ids& ids) const {
        Ids tokens;
        for (const auto& forms : phrases)
            if (!occurs(ids, forms))
                for (const Ids& form : forms)
                    tokens.insert(tokens.end(), {form[0], form[matched_prefix(ids, form)]});
        return tokens;
    }
};

}  // namespace dragoman
