"""Triton kernels for training on a GPU; gpu_kernels.py calls them.

A program computes one row, one block of rows or one head. Arguments in capitals are constants of a compiled
kernel, and powers of two where they are sizes of blocks. Sums are float32.
"""

import triton
import triton.language as tl

# ---- dropout, and LayerNorm(x + Dropout(y)), a program a row


@triton.jit
def shift_right(bits, places: tl.constexpr):
    """Logical shift: zeros come in from the left (system/random.py)."""
    return (bits >> places) & ((1 << (64 - places)) - 1)


@triton.jit
def dropout_factor(key, place, threshold, scale):
    """`scale` where the random bits of an element (native/dropout.py) are not below the threshold, else 0."""
    bits = tl.load(key) + (place // 4) * -7046029254386353131
    bits = (bits ^ shift_right(bits, 30)) * -4658895280553007687
    bits = (bits ^ shift_right(bits, 27)) * -7723592293110705685
    bits = bits ^ shift_right(bits, 31)
    own = ((bits >> (16 * (place % 4))) & 0xFFFF).to(tl.int32)
    own = tl.where(own < 32768, own, own - 65536)
    return tl.where(own >= threshold, scale, 0.0)


@triton.jit(do_not_specialize=["threshold"])
def dropout(x, out, key, threshold, scale, count, BLOCK: tl.constexpr):
    """BLOCK of `count` numbers times their factors."""
    place = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = place < count
    kept = tl.load(x + place, inside).to(tl.float32) * dropout_factor(key, place, threshold, scale)
    tl.store(out + place, kept, inside)


@triton.jit(do_not_specialize=["threshold"])
def residual_forward(
    x, y, out, normal, scales, gain, bias, epsilon, key, threshold, scale, width,
    MASKED: tl.constexpr, WIDTH: tl.constexpr,
):  # fmt: skip
    """`normal` is the row before gain and bias; `scales` are 1 / √(variance + epsilon)."""
    row, column = tl.program_id(0).to(tl.int64), tl.arange(0, WIDTH)
    inside, place = column < width, row * width + column
    total = tl.load(y + place, inside, 0.0).to(tl.float32)
    if MASKED:
        total *= dropout_factor(key, place, threshold, scale)
    total += tl.load(x + place, inside, 0.0).to(tl.float32)
    centred = tl.where(inside, total - tl.sum(total) / width, 0.0)
    scale_of_row = tl.rsqrt(tl.sum(centred * centred) / width + epsilon)
    normalised = centred * scale_of_row
    tl.store(normal + place, normalised, inside)
    tl.store(scales + row, scale_of_row)
    weighted = normalised * tl.load(gain + column, inside, 0.0) + tl.load(bias + column, inside, 0.0)
    tl.store(out + place, weighted, inside)


@triton.jit(do_not_specialize=["threshold", "rows"])
def residual_backward(
    gradient, normal, scales, gain, x, y, sums, key, threshold, scale, rows, width,
    MASKED: tl.constexpr, WIDTH: tl.constexpr,
):  # fmt: skip
    """The gradients of x and y, and of gain and bias summed over the rows of each program."""
    program, programs, column = tl.program_id(0), tl.num_programs(0), tl.arange(0, WIDTH)
    inside = column < width
    weight = tl.load(gain + column, inside, 0.0)
    gain_sum, bias_sum = tl.zeros([WIDTH], tl.float32), tl.zeros([WIDTH], tl.float32)
    for row in range(program, rows, programs):
        place = tl.full((), row, tl.int64) * width + column
        given = tl.load(gradient + place, inside, 0.0).to(tl.float32)
        normalised = tl.load(normal + place, inside, 0.0).to(tl.float32)
        gain_sum += given * normalised
        bias_sum += given
        weighted = given * weight
        along = tl.sum(weighted * normalised) / width
        total = (weighted - tl.sum(weighted) / width - normalised * along) * tl.load(scales + row)
        tl.store(x + place, total, inside)
        if MASKED:
            total *= dropout_factor(key, place, threshold, scale)
            tl.store(y + place, total, inside)
    tl.store(sums + program * width + column, gain_sum, inside)
    tl.store(sums + (programs + program) * width + column, bias_sum, inside)


# ---- max(0, x W_1 + b_1) W_2 + b_2


@triton.jit(do_not_specialize=["rows", "part"])
def column_sums(
    hidden, gradient, sums, rows, width, part, RELU: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr
):
    """The sum of `part` rows of the gradient; RELU first puts zeros where `hidden` is not positive."""
    column = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    first, total = tl.program_id(1) * part, tl.zeros([COLUMNS], tl.float32)
    last = tl.minimum(first + part, rows)
    for start in range(first, last, ROWS):
        row = start + tl.arange(0, ROWS)
        place = row[:, None].to(tl.int64) * width + column
        inside = (row < last)[:, None] & (column < width)
        kept = tl.load(gradient + place, inside, 0.0).to(tl.float32)
        if RELU:
            kept = tl.where(tl.load(hidden + place, inside, 0.0) > 0, kept, 0.0)
            tl.store(gradient + place, kept, inside)
        total += tl.sum(kept, 0)
    tl.store(sums + tl.program_id(1) * width + column, total, column < width)


# ---- softmax(Q Kᵀ / √d_k) V, a program a head
# T queries and N keys, rounded up to powers of two, stay in registers: nothing as large as the weights is
# written. b, h and p are the strides of sentences, heads and positions.


@triton.jit
def rows_of_head(matrix, head, sentence, position, b, h, p, WIDTH: tl.constexpr):
    """Pointers to the rows of a head at some positions."""
    return matrix + sentence * b + head * h + position[:, None] * p + tl.arange(0, WIDTH)


@triton.jit
def attention_weights(
    q, k, scale, mask, sentence, mask_b, mask_p, queries, keys,
    CAUSAL: tl.constexpr, MASKED: tl.constexpr, T: tl.constexpr, N: tl.constexpr,
):  # fmt: skip
    """softmax(Q Kᵀ · scale) [T N]; zeros for a query without an allowed key."""
    query, key = tl.arange(0, T)[:, None], tl.arange(0, N)[None, :]
    allowed = (query < queries) & (key < keys)
    if CAUSAL:
        allowed &= key <= query + keys - queries
    if MASKED:
        allowed &= tl.load(mask + sentence * mask_b + query * mask_p + key, allowed, 0) != 0
    scores = tl.where(allowed, tl.dot(q, tl.trans(k)) * scale, float("-inf"))
    highest = tl.max(scores, 1)
    exponentials = tl.exp(scores - tl.where(highest == float("-inf"), 0.0, highest)[:, None])
    total = tl.sum(exponentials, 1)
    return exponentials / tl.where(total == 0.0, 1.0, total)[:, None]


@triton.jit(do_not_specialize=["mask_b", "mask_p", "queries", "keys"])
def attention_forward(
    query, key, value, mask, out,
    query_b, query_h, query_p, key_b, key_h, key_p, value_b, value_h, value_p, mask_b, mask_p,
    heads, queries, keys, scale,
    CAUSAL: tl.constexpr, MASKED: tl.constexpr,
    K: tl.constexpr, KV: tl.constexpr, T: tl.constexpr, N: tl.constexpr,
):  # fmt: skip
    """softmax(Q Kᵀ · scale) V, the heads side by side [sentences, queries, heads · KV]."""
    sentence, head = (tl.program_id(0) // heads).to(tl.int64), tl.program_id(0) % heads
    t, n = tl.arange(0, T), tl.arange(0, N)
    is_query, is_key = (t < queries)[:, None], (n < keys)[:, None]
    q = tl.load(rows_of_head(query, head, sentence, t, query_b, query_h, query_p, K), is_query, 0.0)
    k = tl.load(rows_of_head(key, head, sentence, n, key_b, key_h, key_p, K), is_key, 0.0)
    v = tl.load(rows_of_head(value, head, sentence, n, value_b, value_h, value_p, KV), is_key, 0.0)
    weights = attention_weights(
        q, k, scale, mask, sentence, mask_b, mask_p, queries, keys, CAUSAL, MASKED, T, N
    )
    found = tl.dot(weights.to(v.dtype), v)
    width = heads * KV
    tl.store(rows_of_head(out, head, sentence, t, queries * width, KV, width, KV), found, is_query)


@triton.jit(do_not_specialize=["mask_b", "mask_p", "queries", "keys"])
def attention_backward(
    query, key, value, mask, gradient, query_gradient, key_gradient, value_gradient,
    query_b, query_h, query_p, key_b, key_h, key_p, value_b, value_h, value_p, mask_b, mask_p,
    heads, queries, keys, scale,
    CAUSAL: tl.constexpr, MASKED: tl.constexpr,
    K: tl.constexpr, KV: tl.constexpr, T: tl.constexpr, N: tl.constexpr,
):  # fmt: skip
    """The gradients have the strides of query, key and value; the weights are computed again."""
    sentence, head = (tl.program_id(0) // heads).to(tl.int64), tl.program_id(0) % heads
    t, n = tl.arange(0, T), tl.arange(0, N)
    is_query, is_key, width = (t < queries)[:, None], (n < keys)[:, None], heads * KV
    q = tl.load(rows_of_head(query, head, sentence, t, query_b, query_h, query_p, K), is_query, 0.0)
    k = tl.load(rows_of_head(key, head, sentence, n, key_b, key_h, key_p, K), is_key, 0.0)
    v = tl.load(rows_of_head(value, head, sentence, n, value_b, value_h, value_p, KV), is_key, 0.0)
    given = tl.load(rows_of_head(gradient, head, sentence, t, queries * width, KV, width, KV), is_query, 0.0)
    weights = attention_weights(
        q, k, scale, mask, sentence, mask_b, mask_p, queries, keys, CAUSAL, MASKED, T, N
    )
    of_value = tl.dot(tl.trans(weights.to(v.dtype)), given)
    of_weights = tl.dot(given, tl.trans(v))
    of_scores = weights * (of_weights - tl.sum(weights * of_weights, 1)[:, None]) * scale
    of_scores = of_scores.to(q.dtype)
    of_query, of_key = tl.dot(of_scores, k), tl.dot(tl.trans(of_scores), q)
    tl.store(
        rows_of_head(query_gradient, head, sentence, t, query_b, query_h, query_p, K), of_query, is_query
    )
    tl.store(rows_of_head(key_gradient, head, sentence, n, key_b, key_h, key_p, K), of_key, is_key)
    tl.store(rows_of_head(value_gradient, head, sentence, n, value_b, value_h, value_p, KV), of_value, is_key)


# ---- label-smoothed cross-entropy
# Rows of logits are `apart` numbers apart.


@triton.jit
def cross_entropy_forward(
    logits, apart, gold, log_sums, loss, nll, smoothing, vocabulary, padding, BLOCK: tl.constexpr
):
    """A row in one pass: each of BLOCK columns keeps its highest logit, and e^(logit - highest) summed."""
    row, column = tl.program_id(0).to(tl.int64), tl.arange(0, BLOCK)
    start = logits + row * apart
    highest = tl.full([BLOCK], -3e38, tl.float32)
    exponentials, total = tl.zeros([BLOCK], tl.float32), tl.zeros([BLOCK], tl.float32)
    for first in range(0, vocabulary, BLOCK):
        inside = first + column < vocabulary
        some = tl.load(start + first + column, inside, -3e38).to(tl.float32)
        higher, factor = some > highest, tl.exp(-tl.abs(some - highest))
        added = tl.where(higher, exponentials * factor + 1.0, exponentials + factor)
        exponentials = tl.where(inside, added, exponentials)
        highest = tl.where(higher, some, highest)
        total += tl.where(inside, some, 0.0)
    most = tl.max(highest)
    log_sum = most + tl.log(tl.sum(exponentials * tl.exp(highest - most)))
    token = tl.load(gold + row)
    gold_nll = log_sum - tl.load(start + token).to(tl.float32)
    smoothed = (1 - smoothing) * gold_nll + smoothing * (log_sum - tl.sum(total) / vocabulary)
    tl.store(log_sums + row, log_sum)
    tl.store(nll + row, tl.where(token == padding, 0.0, gold_nll))
    tl.store(loss + row, tl.where(token == padding, 0.0, smoothed))


@triton.jit(do_not_specialize=["rows"])
def cross_entropy_backward(
    logits, apart, gold, log_sums, factor, smoothing, rows, vocabulary, padding, BLOCK: tl.constexpr
):
    """Puts the gradient times `factor` in the place of BLOCK logits of a row; zeros for padding."""
    row, column = tl.program_id(0).to(tl.int64), tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    place, inside, is_row = logits + row * apart + column, column < vocabulary, row < rows
    token = tl.load(gold + row, is_row, padding).to(tl.int32)
    times = tl.where(token == padding, 0.0, tl.load(factor).to(tl.float32))
    some = tl.load(place, inside, 0.0).to(tl.float32)
    gradient = tl.exp(some - tl.load(log_sums + row, is_row, 0.0)) - smoothing / vocabulary
    gradient = tl.where(column == token, gradient - (1 - smoothing), gradient) * times
    tl.store(place, tl.where(token == padding, 0.0, gradient), inside)
