"""Environment variables of torchrun that are unusable."""

import pytest

from dragoman.system.errors import DragomanError
from dragoman.training.world import process_group

UNUSABLE = {
    "WORLD_SIZE is 'two'.*a whole number from 1.*unset WORLD_SIZE": {"WORLD_SIZE": "two"},
    "WORLD_SIZE is '0'.*from 1": {"WORLD_SIZE": "0"},
    "RANK is '-1'.*a whole number from 0": {"RANK": "-1"},
    "LOCAL_RANK is ''.*from 0": {"LOCAL_RANK": ""},
    "RANK is 2, and WORLD_SIZE is 2; ranks are numbered from 0": {"RANK": "2"},
    "MASTER_PORT are unusable.*by torchrun, or unset RANK": {"MASTER_PORT": "http"},
}


@pytest.mark.parametrize("message", UNUSABLE)
def test_an_unusable_variable_is_named(monkeypatch, message):
    usual = {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1"}
    for variable, value in (usual | UNUSABLE[message]).items():
        monkeypatch.setenv(variable, value)
    with pytest.raises(DragomanError, match=message), process_group():
        pass


def test_a_variable_that_is_missing_is_named(monkeypatch):
    for variable, value in {"RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1"}.items():
        monkeypatch.setenv(variable, value)
    monkeypatch.delenv("MASTER_PORT", raising=False)
    with pytest.raises(DragomanError, match="MASTER_PORT expected, but not set"), process_group():
        pass
