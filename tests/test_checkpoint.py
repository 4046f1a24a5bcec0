"""Folders that appear whole or not at all."""

import json
import os
import re
import sys
from dataclasses import asdict, fields, replace
from itertools import count
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import distributed, nn

from dragoman.model import weights as checkpoint
from dragoman.pipeline.reopen import remove_folder
from dragoman.system.errors import DragomanError
from dragoman.system.files import (
    NEW,
    OLD,
    beside,
    check_folder,
    copy_folder,
    read_manifest,
    readable_folder,
    recover_interrupted_write,
    write_folder,
)
from dragoman.system.messages import messages_to
from dragoman.system.new_folder import write_new_folder
from dragoman.system.toml import MAX_NUMBER
from dragoman.training.checkpoint import (
    TrainingState,
    check_moments,
    load_optimizer,
    optimizer_tensors,
    read_state,
    refuse_lost_checkpoints,
    resume,
)
from dragoman.training.distributed import ProcessGroup
from dragoman.training.log import MAX_STEP, Log
from dragoman.training.low_rank import LowRankAdam
from dragoman.training.objective import make_optimizer, step_optimizer
from dragoman.training.settings import SCORES
from tests.processes import fork, worst


def write_text(text):
    return lambda folder: (folder / "a.txt").write_text(text) and None


def test_a_folder_is_replaced_as_a_whole(tmp_path):
    folder = tmp_path / "model"
    write_folder(folder, write_text("one"))
    write_folder(folder, write_text("two"))
    check_folder(folder)
    assert (folder / "a.txt").read_text() == "two"
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


def test_an_error_while_writing_leaves_the_former_folder(tmp_path):
    folder = tmp_path / "model"
    write_folder(folder, write_text("one"))

    def fail(new):
        (new / "a.txt").write_text("half")
        raise OSError("disk full")

    with pytest.raises(
        DragomanError,
        match="model could not be written: disk full. What was written before it is complete; free some "
        "space",
    ):
        write_folder(folder, fail)
    check_folder(folder)
    assert (folder / "a.txt").read_text() == "one"
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


def test_of_processes_that_write_one_new_folder_the_first_gets_it(tmp_path):
    folder = tmp_path / "new"

    def second(new):
        write_new_folder(folder, write_text("one"))  # while this one writes
        (folder / "note").write_text("mine")
        write_text("two")(new)

    with pytest.raises(DragomanError, match="new exists: something else has made it in the meantime"):
        write_new_folder(folder, second)
    assert {path.name for path in folder.iterdir()} == {"a.txt", "manifest.json", "note"}
    assert (folder / "a.txt").read_text() == "one"
    assert [path.name for path in tmp_path.iterdir()] == ["new"]


def test_an_empty_folder_or_a_link_to_one_may_be_filled(tmp_path):
    (tmp_path / "empty").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "empty")
    write_new_folder(tmp_path / "link", write_text("one"))
    check_folder(tmp_path / "empty")
    assert (tmp_path / "empty" / "a.txt").read_text() == "one"


@pytest.mark.parametrize("state", ["before", "between", "after"])
def test_killed_between_two_renames_nothing_is_lost(tmp_path, state):
    folder = tmp_path / "model"
    new, old = (tmp_path / name.format("model") for name in (NEW, OLD))
    write_folder(folder, write_text("one"))
    write_folder(new, write_text("two"))
    if state != "before":
        folder.rename(old)
    if state == "after":
        new.rename(folder)
    check_folder(folder)
    complete = "two" if state == "after" else "one"
    assert (readable_folder(folder) / "a.txt").read_text() == complete
    recover_interrupted_write(folder)
    assert (folder / "a.txt").read_text() == complete
    assert not old.exists()
    write_folder(folder, write_text("three"))
    assert (folder / "a.txt").read_text() == "three"


CHANGES = {"os.rename", "os.remove", "os.rmdir", "os.mkdir", "shutil.rmtree"}


def killed_before_change(folder, number):
    """Whether a process that replaces a folder is killed before this change of the disk; else it ends."""
    if (process := os.fork()) == 0:
        left = iter(range(number))

        def kill(event, _):
            if event in CHANGES and next(left, None) is None:
                os._exit(9)

        sys.addaudithook(kill)
        write_folder(folder, write_text("two"))
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) == 9


def test_killed_before_any_change_of_the_disk_nothing_is_lost(tmp_path):
    folder, kept = tmp_path / "model", []
    for number in count():
        write_folder(folder, write_text("one"))
        is_killed = killed_before_change(folder, number)
        recover_interrupted_write(folder)
        check_folder(folder)
        kept.append((folder / "a.txt").read_text())
        if not is_killed:
            break
    assert kept == sorted(kept)
    assert set(kept) == {"one", "two"}
    assert len(kept) > 3


def test_folders_of_the_user_beside_a_folder_are_kept(tmp_path):
    backups = [tmp_path / f"model{ending}" for ending in (".old", ".new", ".bak", "~")]
    for backup in backups:
        write_folder(backup, write_text("mine"))
    for text in ("one", "two"):
        write_folder(tmp_path / "model", write_text(text))
        recover_interrupted_write(tmp_path / "model")
    remove_folder(tmp_path / "model")
    assert not (tmp_path / "model").exists()
    assert sorted(tmp_path.iterdir()) == sorted(backups)
    for backup in backups:
        check_folder(backup)


def test_a_link_to_a_folder_is_replaced_and_the_folder_is_kept(tmp_path):
    folder, elsewhere = tmp_path / "model", tmp_path / "elsewhere"
    write_folder(elsewhere, write_text("mine"))
    folder.symlink_to(elsewhere)
    for text in ("one", "two"):
        write_folder(folder, write_text(text))
        assert (folder / "a.txt").read_text() == text
    remove_folder(folder)
    folder.symlink_to(elsewhere)
    remove_folder(folder)
    assert list(tmp_path.iterdir()) == [elsewhere]
    check_folder(elsewhere)
    assert (elsewhere / "a.txt").read_text() == "mine"


def test_a_folder_is_copied_and_removed(tmp_path):
    folder, other = tmp_path / "model", tmp_path / "best"
    write_folder(folder, write_text("one"))
    left = tmp_path / NEW.format("best")
    left.mkdir()
    (left / "left").touch()  # by a process that was killed
    copy_folder(folder, other)
    check_folder(other)
    assert {path.name: path.read_bytes() for path in other.iterdir()} == {
        path.name: path.read_bytes() for path in folder.iterdir()
    }
    remove_folder(other)
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


def test_missing_changed_and_unlisted_files_are_named(tmp_path):
    folder = tmp_path / "model"
    write_folder(folder, write_text("one"))
    (folder / "b.txt").touch()
    with pytest.raises(DragomanError, match=r"b\.txt is not listed in manifest\.json"):
        check_folder(folder)
    (folder / "b.txt").unlink()
    (folder / "a.txt").write_text("One")
    with pytest.raises(DragomanError, match="a.txt is damaged or was changed"):
        check_folder(folder)
    (folder / "a.txt").unlink()
    with pytest.raises(DragomanError, match="a.txt is missing, and manifest.json lists it"):
        check_folder(folder)
    (folder / "manifest.json").write_text("{")
    with pytest.raises(DragomanError, match="manifest.json cannot be read"):
        check_folder(folder)


def test_files_in_folders_of_a_folder_are_listed_checked_and_have_its_mode(tmp_path):
    def write(new):
        (new / "a" / "b").mkdir(parents=True)
        for name in ("top", "a/one", "a/b/two"):
            (new / name).write_text(name)
            (new / name).chmod(0o600)

    former = os.umask(0o022)
    try:
        write_folder(tmp_path / "model", write)
    finally:
        os.umask(former)
    manifest = read_manifest(tmp_path / "model")
    assert list(manifest) == ["a/b/two", "a/one", "top"]
    for name in manifest:
        path = tmp_path / "model" / name
        assert path.stat().st_mode & 0o777 == 0o644
        path.write_text("changed")
        with pytest.raises(DragomanError, match=f"{name} is damaged or was changed"):
            check_folder(tmp_path / "model")
        path.write_text(name)
    check_folder(tmp_path / "model")


@pytest.mark.parametrize("path", [".", "..", "c/..", "../b", "../../x/..", "../../.."])
def test_the_backup_of_a_folder_is_beside_it_however_the_folder_is_named(tmp_path, monkeypatch, path):
    (tmp_path / "x" / "b" / "c").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "x" / "b")
    found = beside(Path(path), OLD)
    assert found.parent.resolve() == Path(path).resolve().parent
    assert found.name == OLD.format(Path(path).resolve().name)


def test_the_manifest_can_be_checked_by_hand(tmp_path):
    write_folder(tmp_path / "model", write_text("one"))
    manifest = json.loads((tmp_path / "model" / "manifest.json").read_text())
    assert manifest == {"a.txt": "7692c3ad3540bb803c020b3aee66cd8887123234ea0c6e7143c0add73ff431ed"}


def test_weights_that_do_not_fit_are_named_with_both_shapes(tmp_path):
    model = nn.Linear(2, 3)
    good = checkpoint.weights(model)
    cases = [
        ({"weight": good["weight"]}, "file lacks bias, which the model's settings ask for"),
        ({**good, "extra": good["bias"]}, "file has extra, which a model of these settings does not"),
        ({**good, "bias": torch.zeros(4)}, r"bias has the shape \(4,\); the settings give \(3,\)"),
    ]
    for tensors, message in cases:
        with pytest.raises(DragomanError, match=message):
            checkpoint.load_weights(model, tensors, tmp_path / "file")


def test_a_truncated_file_of_tensors_is_named(tmp_path):
    path = tmp_path / "m.safetensors"
    checkpoint.save_tensors(path, {"a": torch.ones(3)})
    path.write_bytes(path.read_bytes()[:-2])
    with pytest.raises(DragomanError, match="m.safetensors cannot be read"):
        checkpoint.load_tensors(path)


def test_the_average_is_the_mean(tmp_path):
    values = [torch.randn(3, 2) for _ in range(3)]
    paths = []
    for number, value in enumerate(values):
        paths.append(tmp_path / f"{number}.safetensors")
        checkpoint.save_tensors(paths[-1], {"a": value})
    torch.testing.assert_close(checkpoint.average(paths)["a"], torch.stack(values).mean(0))


def test_an_optimizer_comes_back_exactly():
    torch.manual_seed(0)
    model, twin = nn.Linear(2, 3), nn.Linear(2, 3)
    twin.load_state_dict(model.state_dict())
    optimizers = [torch.optim.Adam(one.parameters(), fused=True) for one in (model, twin)]

    def step(one, optimizer):
        one(torch.ones(1, 2)).square().sum().backward()
        optimizer.step()
        optimizer.zero_grad()

    step(model, optimizers[0])
    twin.load_state_dict(model.state_dict())
    saved = {name: tensor.clone() for name, tensor in optimizer_tensors(model, optimizers[0]).items()}
    load_optimizer(twin, optimizers[1], saved)
    for one, optimizer in zip((model, twin), optimizers, strict=True):
        step(one, optimizer)
    assert torch.equal(model.weight, twin.weight)


def moments_of(low_rank: bool) -> tuple[nn.Module, dict[str, torch.Tensor]]:
    """A model of one weight after an update, and what its optimizer keeps."""
    model = nn.Linear(3, 4, bias=False)
    optimizer = LowRankAdam(model, rank=2, alpha=4.0, seed=1) if low_rank else make_optimizer(model)
    model.weight.grad = torch.ones(4, 3)
    step_optimizer(optimizer, model, 0.1, 0.0)
    return model, optimizer_tensors(model, optimizer)


@pytest.mark.parametrize("low_rank", [False, True])
@given(st.data(), st.sampled_from(["missing", "of another weight", "of another name", "of another shape"]))
def test_moments_that_are_not_those_of_the_model_are_refused_with_their_name(low_rank, data, change):
    model, moments = moments_of(low_rank)
    check_moments(model, moments, Path("file"))
    name = data.draw(st.sampled_from(sorted(moments)))
    key = name.rpartition("|")[2]
    if change == "missing":
        del moments[name]
        rest = ", ".join(sorted(each.rpartition("|")[2] for each in moments))
        message = f"file has of 'weight' only {rest}."
    elif change == "of another weight":
        moments[f"other|{key}"] = moments.pop(name)
        message = f"file has 'other|{key}', which does not belong to this model."
    elif change == "of another name":
        moments[f"weight|{key}s"] = moments.pop(name)
        message = "file has "
    else:
        moments[name] = torch.zeros(7, 5)
        message = f"file has '{name}', which does not belong to this model."
        if low_rank and key not in ("initial", "step"):  # the rank may be any
            check_moments(model, moments, Path("file"))
            return
    with pytest.raises(DragomanError, match=f"^{re.escape(message)}"):
        check_moments(model, moments, Path("file"))


COUNTS = ("step", "epoch", "batches_done", "best_step", "improved_step")
BOUNDS = dict.fromkeys(COUNTS, (0, MAX_STEP)) | {"rolled_back_to": (-1, MAX_STEP)}
BOUNDS |= {"seconds": (0, MAX_NUMBER), "rate_backoff": (0, 1)}


@pytest.mark.parametrize("name", BOUNDS)
def test_the_numbers_of_a_checkpoint_are_read_up_to_their_bounds(tmp_path, name):
    """Steps are those that a log may have; the rate is only ever lowered."""
    state = TrainingState(step=7, best=dict.fromkeys(SCORES, 0.5))
    lowest, highest = BOUNDS[name]
    for value in (lowest - 1, lowest, highest, highest + 1):
        (tmp_path / "place.json").write_text(json.dumps(asdict(state) | {name: value}))
        if lowest <= value <= highest:
            assert read_state(tmp_path) == replace(state, **{name: value})
        else:
            with pytest.raises(DragomanError, match=rf"place\.json: {name} is {value}(\.0)?; it must be at "):
                read_state(tmp_path)


@pytest.mark.parametrize("name", [field.name for field in fields(TrainingState)])
def test_a_place_without_one_of_its_values_is_refused(tmp_path, name):
    """Otherwise a damaged place would be read as another one, such as epoch 0."""
    values = asdict(TrainingState(step=7, epoch=3, best=dict.fromkeys(SCORES, 0.5)))
    (tmp_path / "place.json").write_text(json.dumps({key: values[key] for key in values if key != name}))
    with pytest.raises(DragomanError, match=rf"place\.json lacks {name}; it is not as it was written"):
        read_state(tmp_path)


@pytest.mark.parametrize("name", SCORES)
def test_a_best_validation_without_a_score_is_refused(tmp_path, name):
    state = TrainingState(best={each: 0.5 for each in SCORES if each != name})
    (tmp_path / "place.json").write_text(json.dumps(asdict(state)))
    with pytest.raises(DragomanError, match=rf"place\.json: best lacks {name}; it is not as it was written"):
        read_state(tmp_path)


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
@pytest.mark.parametrize("validations", range(4))
def test_lost_checkpoints_are_noticed_once_the_log_has_two_validations(tmp_path, validations):
    log = Log(tmp_path, 0, tensorboard=False)
    for number in range(1, validations + 1):
        log.write("train", 8 * number, {})
        log.write("validation", 8 * number, {})
    if validations < 2:  # the first one is logged a moment before its checkpoint
        refuse_lost_checkpoints(tmp_path)
        return
    with pytest.raises(DragomanError, match=f"trained for {8 * validations} updates, and its"):
        refuse_lost_checkpoints(tmp_path)


def test_processes_that_found_different_steps_all_refuse_to_resume(tmp_path):
    steps = (4, 8, 12)  # the second process has the mean of all

    def refuse(rank: int) -> None:
        model, folder = nn.Linear(2, 3), tmp_path / f"{rank}"

        def write(new):
            checkpoint.save_tensors(new / "model.safetensors", checkpoint.weights(model))
            checkpoint.save_tensors(new / "optimizer.safetensors", {})
            (new / "place.json").write_text(json.dumps(asdict(TrainingState(steps[rank]))))

        write_folder(folder / "checkpoints" / f"step-{steps[rank]:08}", write)
        distributed.init_process_group(
            "gloo", init_method=f"file://{tmp_path}/store", rank=rank, world_size=3
        )
        world = ProcessGroup(rank, 3, torch.device("cpu"))
        with (
            pytest.raises(DragomanError, match=f"This process found the checkpoint of update {steps[rank]} "),
            messages_to(pytest.fail),
        ):
            resume(model, make_optimizer(model), folder, world)
        distributed.destroy_process_group()

    assert worst([fork(lambda rank=rank: refuse(rank)) for rank in range(3)]) == 0


def test_nothing_in_the_package_unpickles():
    from pathlib import Path

    import dragoman

    for path in Path(dragoman.__file__).parent.rglob("*.py"):
        text = path.read_text()
        assert "import pickle" not in text
        loads = text.count("torch.load(")
        assert loads == (path.name == "pickles.py")  # other toolkits' checkpoints
        assert text.count("weights_only=True)") == loads
        assert "allow_pickle=True" not in text
