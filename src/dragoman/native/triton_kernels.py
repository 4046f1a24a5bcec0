"""Triton kernels for training on a GPU; gpu_kernels.py calls them.

A program computes one row, a part of it, several rows or one head. Arguments in capitals are constants of a
compiled kernel, and powers of two where they are sizes of blocks. Sums are float32.
"""

import math

import triton
import triton.language as tl

# ---- dropout, and LayerNorm(x + Dropout(y))


@triton.jit
def shift_right(bits, places: tl.constexpr):
    """Logical shift: zeros come in from the left (system/random.py)."""
    return (bits >> places) & ((1 << (64 - places)) - 1)


@triton.jit
def random_bits(key, counter):
    """SplitMix64, whose factors are those of system/random.py: 64 random bits for each counter."""
    bits = tl.load(key) + counter * -7046029254386353131
    bits = (bits ^ shift_right(bits, 30)) * -4658895280553007687
    bits = (bits ^ shift_right(bits, 27)) * -7723592293110705685
    return bits ^ shift_right(bits, 31)


@triton.jit
def dropout_factor(bits, place, threshold, scale):
    """`scale` where the 16 bits at a place (native/dropout.py) are not below the threshold, else 0."""
    bits16 = ((bits >> (16 * place)) & 0xFFFF).to(tl.int32)
    bits16 = tl.where(bits16 < 32768, bits16, bits16 - 65536)
    return tl.where(bits16 >= threshold, scale, 0.0)


@triton.jit
def dropout_factors(key, first, threshold, scale, COUNT: tl.constexpr, GROUPED: tl.constexpr):
    """The factors of COUNT elements from `first` on. GROUPED, which needs multiples of 4, is faster."""
    if GROUPED:
        bits = random_bits(key, first // 4 + tl.arange(0, COUNT // 4))
        factors = dropout_factor(bits[:, None], tl.arange(0, 4)[None, :], threshold, scale)
        return tl.reshape(factors, [COUNT])
    offset = first + tl.arange(0, COUNT)
    return dropout_factor(random_bits(key, offset // 4), offset % 4, threshold, scale)


@triton.jit(do_not_specialize=["threshold"])
def dropout(x, out, key, threshold, scale, count, BLOCK: tl.constexpr):
    """BLOCK of `count` numbers times their factors."""
    first = tl.program_id(0).to(tl.int64) * BLOCK
    offset = first + tl.arange(0, BLOCK)
    in_bounds = offset < count
    factors = dropout_factors(key, first, threshold, scale, BLOCK, True)
    tl.store(out + offset, tl.load(x + offset, in_bounds).to(tl.float32) * factors, in_bounds)


@triton.jit(do_not_specialize=["threshold"])
def residual_forward(
    x, y, out, normalised_rows, inverse_std, gain, bias, epsilon, key, threshold, scale, width,
    MASKED: tl.constexpr, GROUPED: tl.constexpr, WIDTH: tl.constexpr,
):  # fmt: skip
    """Also stores the rows before gain and bias, and 1 / √(variance + epsilon) of each row."""
    row, column = tl.program_id(0).to(tl.int64), tl.arange(0, WIDTH)
    in_bounds, offset = column < width, row * width + column
    total = tl.load(y + offset, in_bounds, 0.0).to(tl.float32)
    if MASKED:
        total *= dropout_factors(key, row * width, threshold, scale, WIDTH, GROUPED)
    total += tl.load(x + offset, in_bounds, 0.0).to(tl.float32)
    centred = tl.where(in_bounds, total - tl.sum(total) / width, 0.0)
    inverse = tl.rsqrt(tl.sum(centred * centred) / width + epsilon)
    normalised = centred * inverse
    tl.store(normalised_rows + offset, normalised, in_bounds)
    tl.store(inverse_std + row, inverse)
    weighted = normalised * tl.load(gain + column, in_bounds, 0.0) + tl.load(bias + column, in_bounds, 0.0)
    tl.store(out + offset, weighted, in_bounds)


@triton.jit(do_not_specialize=["threshold", "rows"])
def residual_backward(
    gradient, normalised_rows, inverse_std, gain, x_gradient, y_gradient, sums,
    key, threshold, scale, rows, width,
    MASKED: tl.constexpr, GROUPED: tl.constexpr, WIDTH: tl.constexpr,
):  # fmt: skip
    """The gradients of x and y, and of gain and bias summed over the rows of each program."""
    program, programs, column = tl.program_id(0), tl.num_programs(0), tl.arange(0, WIDTH)
    in_bounds = column < width
    weight = tl.load(gain + column, in_bounds, 0.0)
    gain_sum, bias_sum = tl.zeros([WIDTH], tl.float32), tl.zeros([WIDTH], tl.float32)
    for row in range(program, rows, programs):
        first = tl.full((), row, tl.int64) * width
        offset = first + column
        d_output = tl.load(gradient + offset, in_bounds, 0.0).to(tl.float32)
        normalised = tl.load(normalised_rows + offset, in_bounds, 0.0).to(tl.float32)
        gain_sum += d_output * normalised
        bias_sum += d_output
        weighted = d_output * weight
        projection = tl.sum(weighted * normalised) / width
        total = (weighted - tl.sum(weighted) / width - normalised * projection) * tl.load(inverse_std + row)
        tl.store(x_gradient + offset, total, in_bounds)
        if MASKED:
            total *= dropout_factors(key, first, threshold, scale, WIDTH, GROUPED)
            tl.store(y_gradient + offset, total, in_bounds)
    partial_sums = sums + program * 2 * width + column
    tl.store(partial_sums, gain_sum, in_bounds)
    tl.store(partial_sums + width, bias_sum, in_bounds)


# ---- max(0, x W_1 + b_1) W_2 + b_2


@triton.jit(do_not_specialize=["rows", "part"])
def column_sums(
    hidden, gradient, sums, rows, width, part, RELU: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr
):
    """The sum of `part` rows of the gradient. RELU first overwrites it with zeros where `hidden` ≤ 0."""
    column = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    first, total = tl.program_id(1) * part, tl.zeros([COLUMNS], tl.float32)
    last = tl.minimum(first + part, rows)
    for start in range(first, last, ROWS):
        row = start + tl.arange(0, ROWS)
        offset = row[:, None].to(tl.int64) * width + column
        in_bounds = (row < last)[:, None] & (column < width)
        block = tl.load(gradient + offset, in_bounds, 0.0).to(tl.float32)
        if RELU:
            block = tl.where(tl.load(hidden + offset, in_bounds, 0.0) > 0, block, 0.0)
            tl.store(gradient + offset, block, in_bounds)
        total += tl.sum(block, 0)
    tl.store(sums + tl.program_id(1) * width + column, total, column < width)


# ---- softmax(Q Kᵀ / √d_k) V, one program per head
# T queries and N keys, rounded up to powers of two, stay in registers: nothing as large as the weights is
# written. _b, _h and _t are the strides of sentences, heads and positions.


@triton.jit
def rows_of_head(matrix, head, sentence, position, stride_b, stride_h, stride_t, WIDTH: tl.constexpr):
    """Pointers to the rows of a head at some positions."""
    return matrix + sentence * stride_b + head * stride_h + position[:, None] * stride_t + tl.arange(0, WIDTH)


@triton.jit
def attention_weights(
    q, k, scale, mask, sentence, mask_b, mask_t, queries, keys,
    CAUSAL: tl.constexpr, MASKED: tl.constexpr, T: tl.constexpr, N: tl.constexpr,
):  # fmt: skip
    """softmax(Q Kᵀ · scale) [T N]; zeros for a query without an allowed key."""
    query, key = tl.arange(0, T)[:, None], tl.arange(0, N)[None, :]
    allowed = (query < queries) & (key < keys)
    if CAUSAL:
        allowed &= key <= query + keys - queries
    if MASKED:
        allowed &= tl.load(mask + sentence * mask_b + query * mask_t + key, allowed, 0) != 0
    scores = tl.where(allowed, tl.dot(q, tl.trans(k)) * scale, float("-inf"))
    highest = tl.max(scores, 1)
    exponentials = tl.exp(scores - tl.where(highest == float("-inf"), 0.0, highest)[:, None])
    total = tl.sum(exponentials, 1)
    return exponentials / tl.where(total == 0.0, 1.0, total)[:, None]


@triton.jit(do_not_specialize=["mask_b", "mask_t", "queries", "keys"])
def attention_forward(
    query, key, value, mask, out,
    query_b, query_h, query_t, key_b, key_h, key_t, value_b, value_h, value_t, mask_b, mask_t,
    heads, queries, keys, scale,
    CAUSAL: tl.constexpr, MASKED: tl.constexpr,
    K: tl.constexpr, KV: tl.constexpr, T: tl.constexpr, N: tl.constexpr,
):  # fmt: skip
    """softmax(Q Kᵀ · scale) V, the heads side by side [sentences, queries, heads · KV]."""
    sentence, head = (tl.program_id(0) // heads).to(tl.int64), tl.program_id(0) % heads
    t, n = tl.arange(0, T), tl.arange(0, N)
    is_query, is_key = (t < queries)[:, None], (n < keys)[:, None]
    q = tl.load(rows_of_head(query, head, sentence, t, query_b, query_h, query_t, K), is_query, 0.0)
    k = tl.load(rows_of_head(key, head, sentence, n, key_b, key_h, key_t, K), is_key, 0.0)
    v = tl.load(rows_of_head(value, head, sentence, n, value_b, value_h, value_t, KV), is_key, 0.0)
    weights = attention_weights(
        q, k, scale, mask, sentence, mask_b, mask_t, queries, keys, CAUSAL, MASKED, T, N
    )
    context = tl.dot(weights.to(v.dtype), v)
    width = heads * KV
    tl.store(rows_of_head(out, head, sentence, t, queries * width, KV, width, KV), context, is_query)


@triton.jit(do_not_specialize=["mask_b", "mask_t", "queries", "keys"])
def attention_backward(
    query, key, value, mask, gradient, query_gradient, key_gradient, value_gradient,
    query_b, query_h, query_t, key_b, key_h, key_t, value_b, value_h, value_t, mask_b, mask_t,
    heads, queries, keys, scale,
    CAUSAL: tl.constexpr, MASKED: tl.constexpr,
    K: tl.constexpr, KV: tl.constexpr, T: tl.constexpr, N: tl.constexpr,
):  # fmt: skip
    """The gradients have the strides of query, key and value; the weights are computed again."""
    sentence, head = (tl.program_id(0) // heads).to(tl.int64), tl.program_id(0) % heads
    t, n = tl.arange(0, T), tl.arange(0, N)
    is_query, is_key, width = (t < queries)[:, None], (n < keys)[:, None], heads * KV
    q = tl.load(rows_of_head(query, head, sentence, t, query_b, query_h, query_t, K), is_query, 0.0)
    k = tl.load(rows_of_head(key, head, sentence, n, key_b, key_h, key_t, K), is_key, 0.0)
    v = tl.load(rows_of_head(value, head, sentence, n, value_b, value_h, value_t, KV), is_key, 0.0)
    d_output = tl.load(
        rows_of_head(gradient, head, sentence, t, queries * width, KV, width, KV), is_query, 0.0
    )
    weights = attention_weights(
        q, k, scale, mask, sentence, mask_b, mask_t, queries, keys, CAUSAL, MASKED, T, N
    )
    # Each gradient is stored before the next is computed: there are not enough registers for all.
    d_value = tl.dot(tl.trans(weights.to(v.dtype)), d_output)
    tl.store(rows_of_head(value_gradient, head, sentence, n, value_b, value_h, value_t, KV), d_value, is_key)
    d_weights = tl.dot(d_output, tl.trans(v))
    d_scores = weights * (d_weights - tl.sum(weights * d_weights, 1)[:, None]) * scale
    d_scores = d_scores.to(q.dtype)
    d_query = tl.dot(d_scores, k)
    tl.store(rows_of_head(query_gradient, head, sentence, t, query_b, query_h, query_t, K), d_query, is_query)
    d_key = tl.dot(tl.trans(d_scores), q)
    tl.store(rows_of_head(key_gradient, head, sentence, n, key_b, key_h, key_t, K), d_key, is_key)


# ---- label-smoothed cross-entropy

LOG2_E = tl.constexpr(math.log2(math.e))


@triton.jit
def cross_entropy_forward(
    logits, row_stride, gold, log_sums, loss, nll, smoothing, vocabulary, padding, BLOCK: tl.constexpr
):
    """One pass over the blocks of a row, keeping the highest logit so far.

    log_sums [2, rows] are the highest logit of a row and ln Σ e^(logit - highest). Sums are of differences:
    what all logits have in common does not matter.
    """
    row, column = tl.program_id(0).to(tl.int64), tl.arange(0, BLOCK)
    start = logits + row * row_stride
    first_logit, row_max = tl.load(start).to(tl.float32), tl.full((), -3e38, tl.float32)
    exponentials, total = tl.zeros([BLOCK], tl.float32), tl.zeros([BLOCK], tl.float32)
    for first in range(0, vocabulary, BLOCK):
        in_bounds = first + column < vocabulary
        block = tl.load(start + first + column, in_bounds, float("-inf")).to(tl.float32)
        new_max = tl.maximum(row_max, tl.max(block))
        exponentials = exponentials * tl.exp(row_max - new_max) + tl.exp(block - new_max)
        total += tl.where(in_bounds, block - first_logit, 0.0)
        row_max = new_max
    log_sum = tl.log(tl.sum(exponentials))
    token = tl.load(gold + row)
    gold_nll = log_sum + (row_max - tl.load(start + token).to(tl.float32))
    mean_nll = log_sum + (row_max - first_logit) - tl.sum(total) / vocabulary
    counts = token != padding
    tl.store(log_sums + row, row_max)
    tl.store(log_sums + tl.num_programs(0) + row, log_sum)
    tl.store(nll + row, tl.where(counts, gold_nll, 0.0))
    tl.store(loss + row, tl.where(counts, (1 - smoothing) * gold_nll + smoothing * mean_nll, 0.0))


@triton.jit(do_not_specialize=["rows"])
def cross_entropy_backward(
    logits, row_stride, gold, log_sums, loss_gradient, smoothing, rows, vocabulary, padding,
    BLOCK: tl.constexpr,
):  # fmt: skip
    """Replaces BLOCK logits of a row by their gradient. Rows from `rows` on are padding and get zeros."""
    blocks = tl.cdiv(vocabulary, BLOCK)
    row = (tl.program_id(0) // blocks).to(tl.int64)
    column = (tl.program_id(0) % blocks) * BLOCK + tl.arange(0, BLOCK)
    offset, in_bounds, is_row = logits + row * row_stride + column, column < vocabulary, row < rows
    token = tl.load(gold + row, is_row, -1).to(tl.int32)
    counts = is_row & (token != padding)
    row_max, log_sum = tl.load(log_sums + row, counts, 0.0), tl.load(log_sums + rows + row, counts, 0.0)
    factor = tl.where(counts, tl.load(loss_gradient).to(tl.float32), 0.0)
    lowest = -smoothing / vocabulary * factor
    block = tl.load(offset, in_bounds, 0.0).to(tl.float32)
    # Rows that do not count may have any logits.
    shifted = tl.where(counts, block - row_max, 0.0)
    added = tl.where(column == token, lowest - (1 - smoothing) * factor, lowest)
    tl.store(offset, tl.exp2(shifted * LOG2_E - log_sum * LOG2_E) * factor + added, in_bounds)
