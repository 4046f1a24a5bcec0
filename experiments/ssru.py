"""Does a decoder with SSRU reach the BLEU of one with self-attention?

    python experiments/ssru.py OUT RUN [RUN ...]     # a table in Markdown on standard output

Each RUN is a finished run of a Transformer. The same model is trained again, with the same text, seed,
batches and updates, but with a Simpler Simple Recurrent Unit (SSRU, Kim et al. 2019) in the place of masked
self-attention in each decoder layer. Of both models, the average of the last checkpoints translates the
validation text and the test text with PyTorch. OUT gets the runs with SSRU. Those that are complete are not
trained again. Results: LOG.md.
"""

import argparse
import sys
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor, nn

from dragoman.evaluation.compare import paired_bootstrap
from dragoman.evaluation.metrics import bleu, bleu_metric, suitable_tokenization
from dragoman.model.attention import KeysValues
from dragoman.model.interface import Model
from dragoman.model.transformer import Transformer
from dragoman.model.weights import load_weights
from dragoman.pipeline.prepared import PreparedData, make_batches, make_model, make_schedule
from dragoman.pipeline.recipe import Recipe, read_recipe
from dragoman.pipeline.run import make_validate
from dragoman.search.settings import SearchSettings
from dragoman.system.messages import messages_to
from dragoman.text.lines import read_lines
from dragoman.training.checkpoint import average_checkpoints
from dragoman.training.context import TrainingContext
from dragoman.training.loop import train
from dragoman.training.world import World
from dragoman.translation.translator import Translator

ONE = World()


class Recurrence(torch.autograd.Function):
    """c_t = f_t ⊙ c_{t−1} + z_t, from f and z of shape [B, T, D]."""

    @staticmethod
    def forward(ctx, forget: Tensor, new: Tensor) -> Tensor:
        cells = torch.empty_like(new)
        cell = torch.zeros_like(new[:, 0])
        for step in range(new.size(1)):
            cell = torch.addcmul(new[:, step], forget[:, step], cell)
            cells[:, step] = cell
        ctx.save_for_backward(forget, cells)
        return cells

    @staticmethod
    def backward(ctx, gradient: Tensor) -> tuple[Tensor, Tensor]:
        forget, cells = ctx.saved_tensors
        of_new = gradient.clone()
        for step in range(gradient.size(1) - 1, 0, -1):
            of_new[:, step - 1].addcmul_(forget[:, step], of_new[:, step])
        of_forget = torch.zeros_like(forget)
        of_forget[:, 1:] = of_new[:, 1:] * cells[:, :-1]
        return of_forget, of_new


class SSRU(nn.Module):
    """f = σ(W_f x + b), c = f ⊙ c′ + (1 − f) ⊙ W x; the output is max(0, c).

    It takes the place of a decoder layer's `MultiHeadAttention`. It appends f and (1 − f) ⊙ W x to the cache,
    as keys and values. The recurrence runs over a hypothesis's own tokens, which the mask allows.
    """

    def __init__(self, d_model: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.forget_new = nn.Linear(d_model, 2 * d_model)
        for block in self.forget_new.weight.chunk(2):
            nn.init.xavier_uniform_(block)
        nn.init.zeros_(self.forget_new.bias)

    def project(self, x: Tensor) -> tuple[Tensor, KeysValues]:
        """The input [B, T, D], and f and (1 − f) ⊙ W x of each token, split as heads are."""
        forget, new = self.forget_new(x).float().chunk(2, -1)
        forget = forget.sigmoid()
        parts = (forget, (1 - forget) * new)
        return x, KeysValues(*(part.unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in parts))

    def attend(self, x: Tensor, memory: KeysValues, mask: Tensor | None, causal: bool = False) -> Tensor:
        """max(0, c) for each token of x."""
        forget, new = (part.transpose(1, 2).flatten(2) for part in memory)
        if causal:
            cells = Recurrence.apply(forget, new)
        else:
            cells = torch.zeros_like(x)
            for step in range(new.size(1)):
                then = torch.addcmul(new[:, step, None], forget[:, step, None], cells)
                cells = torch.where(mask[:, 0, :, step, None], then, cells)
        return cells.relu().to(torch.bfloat16 if torch.is_autocast_enabled(x.device.type) else x.dtype)


def with_ssru(model: Model) -> Model:
    """The model, with SSRU for the decoder's self-attention."""
    assert isinstance(model, Transformer)
    for layer in model.decoder:
        layer.self_attention = SSRU(model.settings.d_model, model.settings.heads)
    return model


def check(model: Model) -> None:
    """Step by step equals at once, for hypotheses that change places."""
    model.eval()
    source, target = torch.randint(4, 100, (3, 7)), torch.randint(4, 100, (6, 5))
    with torch.no_grad():
        state = model.encode(source).allocate(2, 5)
        rows = torch.tensor([1, 0, 2, 2, 5, 4])
        for step in range(5):
            if step == 3:
                state, target = state.reorder(rows), torch.cat([target[rows, :3], target[:, 3:]], 1)
            features, state = model.decode(target[:, step : step + 1], state)
        once, _ = model.decode(target, model.encode(source.repeat_interleave(2, 0)))
    torch.testing.assert_close(features[:, 0], once[:, -1], atol=1e-5, rtol=1e-4)
    model.train()


def say(message: str) -> None:
    """To standard error, at once."""
    print(message, file=sys.stderr, flush=True)


def trained(recipe: Recipe, data: PreparedData, out: Path) -> None:
    """Train the model with SSRU, or resume its run in `out`."""
    model = with_ssru(make_model(recipe, data, ONE.device))
    check(model)
    in_torch = replace(recipe, training=replace(recipe.training, native=False))  # the C++ decoder has no SSRU
    out.mkdir(parents=True, exist_ok=True)
    context = TrainingContext(
        model=model,
        d_model=recipe.model.d_model,
        batches=make_batches(recipe, data, ONE),
        settings=recipe.training,
        schedule=make_schedule(recipe),
        folder=out,
        validate=make_validate(in_torch, data, ONE),
        keep_best=lambda _model: None,
        world=ONE,
    )
    with messages_to(say):
        train(context)


def averaged(recipe: Recipe, data: PreparedData, folder: Path, ssru: bool) -> Translator:
    """A translator, in PyTorch, with the average of the last checkpoints of a run."""
    schedule = make_schedule(recipe)
    with messages_to(say):
        tensors, _ = average_checkpoints(
            folder, recipe.training.average, schedule.checkpoint_every, schedule.updates
        )
    model = make_model(recipe, data, ONE.device)
    model = with_ssru(model) if ssru else model
    load_weights(model, tensors, folder)
    return Translator.from_model(model.eval(), data.tokenizers, workers=torch.get_num_threads())


def main() -> None:
    """Train, translate, compare."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path, help="where the models with SSRU are trained")
    parser.add_argument("runs", type=Path, nargs="+", help="finished runs of Transformers")
    asked = parser.parse_args()
    print("| run | text | beam | self-attention | SSRU | difference | p |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for run in asked.runs:
        recipe = read_recipe(run)
        torch.set_num_threads(recipe.training.threads or torch.get_num_threads())
        torch.set_flush_denormal(True)
        data = PreparedData.load(run / "data")
        folder = asked.out / f"seed-{recipe.training.seed}"
        trained(recipe, data, folder)
        translators = [averaged(recipe, data, run, False), averaged(recipe, data, folder, True)]
        for text in ("valid", "test"):
            paths = [run / "data" / f"{text}.{side}.txt" for side in ("source", "target")]
            source, target = (list(read_lines(path)) for path in paths)
            tokenize = suitable_tokenization(target)
            for beam in (1, 4):
                search = SearchSettings(beam_size=beam)
                before, after = (translator.translate(source, search) for translator in translators)
                (compared,) = paired_bootstrap(
                    after, before, target, [bleu_metric(tokenize, lowercase=False)]
                )
                own, new = (bleu(lines, target, tokenize).value for lines in (before, after))
                print(
                    f"| seed {recipe.training.seed} | {text} | {beam} | {own:.2f} | {new:.2f} | "
                    f"{new - own:+.2f} | {compared.p_value:.3f} |",
                    flush=True,
                )


if __name__ == "__main__":
    main()
