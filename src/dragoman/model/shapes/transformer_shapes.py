"""Names and shapes of the weights of a Transformer, from its settings. This module imports no torch."""

from dragoman.model.settings import ModelSettings

Shapes = dict[str, tuple[int, ...]]


def transformer_shapes(settings: ModelSettings, target_vocabulary: int) -> Shapes:
    """The weights of `Transformer` but its embeddings."""
    width, shapes = settings.d_model, Shapes()
    if settings.output_bias:
        shapes["output_bias"] = (target_vocabulary,)
    if settings.positions == "learned":
        tables = "source_positions.table", "target_positions.table"
        shapes |= dict.fromkeys(tables, (settings.max_positions, width))
    if settings.norm == "pre":
        shapes |= norm_shapes("encoder_norm", width) | norm_shapes("decoder_norm", width)
    keys, values = settings.heads * settings.key_width, settings.heads * settings.value_width
    inner = {"encoder": settings.d_ff, "decoder": settings.decoder_d_ff or settings.d_ff}
    for side, depth in (("encoder", settings.encoder_layers), ("decoder", settings.decoder_layers)):
        for layer in (f"{side}.{number}" for number in range(depth)):
            for name in ("self_attention", "cross_attention") if side == "decoder" else ("self_attention",):
                attention, bias = f"{layer}.{name}", settings.attention_bias
                shapes |= linear_shapes(f"{attention}.query_key_value", 2 * keys + values, width, bias)
                shapes |= linear_shapes(f"{attention}.output", width, values, bias)
                shapes |= norm_shapes(f"{attention}_residual.norm", width)
            shapes |= linear_shapes(f"{layer}.feed_forward.inner", inner[side], width)
            shapes |= linear_shapes(f"{layer}.feed_forward.outer", width, inner[side])
            shapes |= norm_shapes(f"{layer}.feed_forward_residual.norm", width)
    return shapes


def linear_shapes(name: str, outputs: int, inputs: int, bias: bool = True) -> Shapes:
    """A linear map."""
    return {f"{name}.weight": (outputs, inputs)} | ({f"{name}.bias": (outputs,)} if bias else {})


def norm_shapes(name: str, width: int) -> Shapes:
    """A layer normalisation."""
    return {f"{name}.weight": (width,), f"{name}.bias": (width,)}
