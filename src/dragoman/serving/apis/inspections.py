"""What /v1/inspect computes, and how long its sentences may be."""

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dragoman.inspection.analyse.changes import changed_settings
from dragoman.inspection.served_training import training_of
from dragoman.search.contradictions import refuse_truncation
from dragoman.search.settings import SearchSettings
from dragoman.serving.apis.analysis import least_tokens, refuse_long, refuse_long_translation
from dragoman.serving.apis.schemas import InspectRequest
from dragoman.serving.errors import ApiError
from dragoman.serving.models import ServedModel
from dragoman.system.errors import DragomanError

if TYPE_CHECKING:
    from dragoman.inspection.analyse.changes import Change
    from dragoman.inspection.inspection import Inspection

MAX_INSPECTED = 200  # tokens of a sentence; the memory of an inspection grows faster than their number
OPTIONAL_VIEWS = {
    "heads": (60, "the effects of all heads"),
    "attribution": (40, "an attribution to tokens"),
    "value_zeroing": (60, "value zeroing"),
}
"""Views that are computed only if they are asked for, by their fields in a request: the most tokens of a
sentence and of its translation, and what the view is."""
INSPECTION = "an inspection by a server"
ELSEWHERE = "send a shorter sentence, or use `dragoman inspect`, which has no such limit"


def refuse_long_search(settings: SearchSettings) -> None:
    """Raise `ApiError` 413 for a search that may write a longer translation than a server inspects."""
    for name in ("min_length", "max_extra_tokens"):
        if (value := getattr(settings, name) or 0) > MAX_INSPECTED:
            raise ApiError(
                413, f"{name} is {value:,}, and {INSPECTION} allows {MAX_INSPECTED} at most; {ELSEWHERE}."
            )


def requested_views(request: InspectRequest) -> list[str]:
    """The views of `OPTIONAL_VIEWS` that a request asks for."""
    return [name for name in OPTIONAL_VIEWS if getattr(request, name)]


def refuse_contradictions(request: InspectRequest) -> None:
    """Raise `DragomanError` for fields of a request that do not fit each other."""
    for name in requested_views(request):
        if request.changes:
            raise DragomanError(f"{name} needs the unchanged model; leave changes out, or leave {name} out.")
        refuse_truncation(request.truncate, name)
    for name in ("contrast", "target_tokens"):
        if getattr(request, name) and not request.attribution:
            raise DragomanError(f"{name} needs attribution; send attribution too, or leave {name} out.")


@dataclass(frozen=True)
class RequestedInspection:
    """An inspection that a request asks for."""

    model: ServedModel
    request: InspectRequest
    changes: "Sequence[Change]"
    settings: SearchSettings
    show_samples: bool
    """Whether samples of a run's training may be shown."""

    @property
    def size(self) -> int:
        """A lower bound of its tokens."""
        return least_tokens(self.request.text) + least_tokens(self.request.prefix)

    def compute(self) -> "Inspection":
        """The inspection without an attribution.

        Raises `ApiError` 413 for a sentence that is too long for what is asked, and `DragomanError` as
        `inspect` and the functions of the views.
        """
        from dragoman.inspection.what_if import inspect_changed

        model, request = self.model, self.request
        tokenizers = model.translator.tokenizers
        refuse_long(tokenizers.source, [request.text], MAX_INSPECTED, INSPECTION, ELSEWHERE)
        refuse_long(tokenizers.target, [request.prefix], MAX_INSPECTED, INSPECTION, ELSEWHERE)
        for searched in (self.settings, changed_settings(self.settings, self.changes)):
            refuse_long_search(searched)
        for name in requested_views(request):
            refuse_long(tokenizers.source, [request.text], *OPTIONAL_VIEWS[name], ELSEWHERE)
        inspection = inspect_changed(model.translator, request.text, self.changes, self.settings)
        for name in requested_views(request):
            refuse_long_translation(inspection.target, *OPTIONAL_VIEWS[name], ELSEWHERE)
        inspection = self._with_short_views(inspection)
        assert inspection.origin is not None
        name = f"{model.name} with {model.adapter}" if model.adapter else model.name
        origin = dataclasses.replace(inspection.origin, model=name)
        if self.changes:
            return dataclasses.replace(inspection, origin=origin)
        training = training_of(model.folder, model.name, show_samples=self.show_samples)
        return dataclasses.replace(inspection, origin=origin, training=training)

    def _with_short_views(self, inspection: "Inspection") -> "Inspection":
        """The inspection with the views that are asked for, except the attribution."""
        from dragoman.inspection.analyse.ablation import head_effects
        from dragoman.inspection.analyse.value_zeroing import value_zeroing

        translator, pair = self.model.translator, (self.request.text, inspection.target)
        if self.request.heads:
            inspection = dataclasses.replace(inspection, head_effects=head_effects(translator, *pair))
        if self.request.value_zeroing:
            inspection = dataclasses.replace(inspection, value_zeroing=value_zeroing(translator, *pair))
        return inspection

    def add_attribution(self, inspection: "Inspection", progress: Callable[[int, int], None]) -> "Inspection":
        """The inspection with the attribution, which is computed with a copy of the model.

        `progress` gets how many parts of it are done, and how many there are at most.
        """
        from dragoman.inspection.analyse.attribution import attribute

        contributions = attribute(
            self.model.translator,
            self.request.text,
            inspection.target,
            with_prefix=self.request.target_tokens,
            contrast=self.request.contrast,
            progress=progress,
        )
        return dataclasses.replace(inspection, attribution=contributions)


@dataclass
class Progress:
    """How many parts of an attribution are done, and how many there are at most."""

    done: int = 0
    total: int = 0

    def tell(self, done: int, total: int) -> None:
        """Keep both numbers. It is called in the thread that computes."""
        self.done, self.total = done, total


def inspection_json(inspection: "Inspection") -> dict[str, Any]:
    """The inspection as JSON."""
    from dragoman.inspection.contents import LIVE, contents
    from dragoman.inspection.schema import to_json

    return to_json(inspection, contents(inspection, LIVE))
