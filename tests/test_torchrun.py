"""Environment variables of torchrun that are unusable, and the status of its processes."""

import signal

import pytest

from dragoman.cli.console import say
from dragoman.cli.train import run_training
from dragoman.system.errors import DragomanError
from dragoman.system.torchrun import process_rank
from dragoman.training.interrupt import TrainingInterruptedError
from dragoman.training.process_group import process_group
from tests.processes import fork, worst

UNUSABLE = {
    "WORLD_SIZE is 'two'.*a whole number from 1.*unset WORLD_SIZE": {"WORLD_SIZE": "two"},
    "WORLD_SIZE is '0'.*from 1": {"WORLD_SIZE": "0"},
    "RANK is '-1'.*a whole number from 0": {"RANK": "-1"},
    "LOCAL_RANK is ''.*from 0": {"LOCAL_RANK": ""},
    "RANK is 2, and WORLD_SIZE is 2; ranks are numbered from 0": {"RANK": "2"},
    "torchrun are unusable.*by torchrun, or unset RANK and WORLD_SIZE": {"MASTER_PORT": "http"},
}


@pytest.mark.parametrize("message", UNUSABLE)
def test_an_unusable_variable_is_named(monkeypatch, message):
    usual = {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1"}
    for variable, value in (usual | UNUSABLE[message]).items():
        monkeypatch.setenv(variable, value)
    with pytest.raises(DragomanError, match=message), process_group():
        pass


@pytest.mark.parametrize("rank", ["1", "x"])
def test_a_rank_without_other_processes_means_nothing(monkeypatch, capsys, rank):
    monkeypatch.setenv("RANK", rank)
    for variable in ("WORLD_SIZE", "MASTER_ADDR"):
        monkeypatch.delenv(variable, raising=False)
    with process_group() as world:
        assert (world.rank, world.size, process_rank()) == (0, 1, 0)
    say("heard")
    assert "heard" in capsys.readouterr().err


@pytest.mark.parametrize(
    "variables",
    [{"MASTER_ADDR": "127.0.0.1"}, {"WORLD_SIZE": "1"}, {"MASTER_ADDR": "127.0.0.1", "RANK": "0"}],
)
def test_variables_of_a_cluster_that_are_not_torchruns_mean_nothing(monkeypatch, capsys, variables):
    for variable in ("WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"):
        monkeypatch.delenv(variable, raising=False)
    for variable, value in ({"RANK": "1"} | variables).items():
        monkeypatch.setenv(variable, value)
    with process_group() as world:
        assert (world.rank, world.size, process_rank()) == (0, 1, 0)
    say("heard")
    assert "heard" in capsys.readouterr().err


def test_several_processes_without_an_address_are_refused(monkeypatch):
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.delenv("MASTER_ADDR", raising=False)
    with pytest.raises(DragomanError, match="MASTER_ADDR expected, but not set"), process_group():
        pass


def test_a_variable_that_is_missing_is_named(monkeypatch):
    for variable, value in {"RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1"}.items():
        monkeypatch.setenv(variable, value)
    monkeypatch.delenv("MASTER_PORT", raising=False)
    with pytest.raises(DragomanError, match="MASTER_PORT expected, but not set"), process_group():
        pass


@pytest.mark.short_form(2)
@pytest.mark.parametrize("by_torchrun", [False, True])
@pytest.mark.parametrize("number", [None, signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_the_status_of_a_training_says_which_signal_ended_it(monkeypatch, by_torchrun, number):
    if by_torchrun:
        monkeypatch.setenv("TORCHELASTIC_RUN_ID", "1")

    def training():
        if number is not None:
            raise TrainingInterruptedError(number, step=3)

    process = fork(lambda: run_training(training))
    assert worst([process]) == (0 if number is None else 128 + number)
