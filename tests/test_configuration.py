"""`dragoman serve` by a file and by variables of the environment: every option, and which one wins."""

import dataclasses
import os
import shlex
from unittest import mock

import pytest
import tomli_w
from hypothesis import given
from hypothesis import strategies as st

from dragoman.cli.configuration import OTHERS, configured, configured_settings
from dragoman.cli.parsing import flag_of
from dragoman.cli.serve import COMMAND, ONLY_TYPED, Serve
from dragoman.native.settings import EngineSettings
from dragoman.serving.settings import ServerSettings
from dragoman.system.errors import DragomanError
from dragoman.system.toml import to_table
from tests.servers import serving

ENGINE = {field.name for field in dataclasses.fields(EngineSettings)}
VALUES = {
    "runs": st.lists(st.sampled_from(["a", "runs/b", "a folder/c"]), min_size=1, max_size=2),
    "port": st.integers(0, 65_535),
    "deadline": st.floats(0.5, 3_600),
    "docs": st.booleans(),
    "log_texts": st.booleans(),
    "allow_hosts": st.lists(st.sampled_from(["a.example.org", "*.b", "*"]), min_size=1, max_size=3),
    "glossaries": st.sampled_from(["g", "a folder"]),
    "precision": st.sampled_from(["float32", "bfloat16", "int8"]),
    "workers": st.integers(1, 100),
    "device": st.just("cpu"),
}
"""An option of each type, with its values as TOML has them."""
GIVEN = st.fixed_dictionaries({}, optional=VALUES)


def table_of(values):
    """Options as a file has them."""
    table = {"server": {}, "engine": {}}
    for name, value in values.items():
        (table if name == "runs" else table["engine" if name in ENGINE else "server"])[name] = value
    return table


def words_of(values):
    """Options as the command line has them."""
    words = list(values.get("runs", ()))
    for name, value in values.items():
        flag = flag_of(COMMAND.options[name].field)
        if isinstance(value, bool):
            words.append(flag if value else f"--no-{flag[2:]}")
        elif name != "runs":
            words += [flag, *map(str, value if isinstance(value, list) else [value])]
    return words


def text_of(value):
    """A value as a variable of the environment has it."""
    if isinstance(value, list):
        return shlex.join(value)
    return str(value).lower() if isinstance(value, bool) else str(value)


def variables_of(values):
    return {f"DRAGOMAN_{name.upper()}": text_of(value) for name, value in values.items()}


def read(words, environment=()):
    with mock.patch.dict(os.environ, environment):
        settings = configured_settings(
            COMMAND, configured(COMMAND, COMMAND.parse([*map(str, words)]), ONLY_TYPED)
        )
    return dataclasses.replace(settings, runs=tuple(settings.runs))  # argparse gives a list


@pytest.mark.long
@given(GIVEN, GIVEN, GIVEN)
def test_the_command_line_wins_over_the_environment_and_that_over_the_file(
    tmp_path_factory, file, variables, typed
):
    path = tmp_path_factory.getbasetemp() / "serve.toml"
    path.write_text(tomli_w.dumps(table_of(file)))
    by_all = read([*words_of(typed), "--config", path], variables_of(variables))
    assert by_all == dataclasses.replace(read(words_of(file | variables | typed)), config=path)
    by_variable = read(words_of(typed), variables_of(variables) | {"DRAGOMAN_CONFIG": str(path)})
    assert by_variable == by_all


def test_settings_that_are_written_as_toml_are_read(tmp_path):
    settings = Serve(
        server=ServerSettings(port=1, no_auth=True, docs=False, allow_origins=("*",)),
        engine=EngineSettings(precision="int8", native=True),
    )
    table = to_table(settings)
    for name in ONLY_TYPED:
        del table[name]
    (tmp_path / "serve.toml").write_text(tomli_w.dumps(table))
    path = tmp_path / "serve.toml"
    assert read(["--config", path]) == dataclasses.replace(settings, config=path)


def test_every_option_has_a_variable_that_wants_its_type():
    for name, option in COMMAND.options.items():
        variable = f"DRAGOMAN_{name.upper()}"
        if name in ONLY_TYPED:
            with pytest.raises(DragomanError, match="There is no option for the variable"):
                read(["a"], {variable: "secret"})
        elif option.kinds[0] in (int, float, bool) or option.choices:
            with pytest.raises(DragomanError, match=f"^{variable} is 'x'; it has to be "):
                read(["a"], {variable: "x"})


@pytest.mark.parametrize(
    ("variable", "message"),
    [
        ("DRAGOMAN_PROT", "variable DRAGOMAN_PROT of the environment. Did you mean DRAGOMAN_PORT"),
        ("DRAGOMAN_API_KEY", "Did you mean DRAGOMAN_API_KEYS"),
        ("dragoman_port", "Did you mean DRAGOMAN_PORT"),
        ("DRAGOMAN_QQQ", "dragoman serve --help-all lists the options."),
    ],
)
def test_an_unknown_variable_is_refused_without_its_value(variable, message):
    with pytest.raises(DragomanError, match=message) as refused:
        read(["a"], {variable: "s3cret"})
    assert "s3cret" not in str(refused.value)


@pytest.mark.parametrize(
    ("text", "environment", "message"),
    [
        ("prot = 1", {}, r"there is no key 'prot'. Did you mean 'port' in the table \[server\]\?"),
        (
            "[engine]\nport = 1",
            {},
            r"\[engine\]: there is no key 'port'. Did you mean 'port' in the table \[serv",
        ),
        ("[server]\nruns = []", {}, "there is no key 'runs'. Did you mean 'runs' at the top of the file?"),
        ("server = 1", {}, "serve.toml: server is a table, and 1 is not"),
        ("[server]\nport = 'a'", {}, r"serve.toml \[server\]: port is 'a'; it has to be a whole number"),
        ("[server]\nport = 99999", {}, "^port of .*serve.toml is 99999; it must be at most 65535"),
        ("", {"DRAGOMAN_PORT": "99999"}, "^DRAGOMAN_PORT is 99999; it must be at most 65535"),
        ("", {"DRAGOMAN_HOST": "0.0.0.0"}, "Give --api-keys FILE"),
        ("", {"DRAGOMAN_RUNS": "'a"}, 'DRAGOMAN_RUNS is "\'a", which cannot be split into words'),
        ("config = 'a'", {}, "has 'config', which is for the command line alone"),
        ("runs = ['a', '']", {}, r"serve.toml: runs is \['a', ''\]; it has to be"),
        ("[server]\nglossaries = ''", {}, "glossaries is ''; it has to be a path in quotes"),
        ("", {"DRAGOMAN_GLOSSARIES": ""}, "^DRAGOMAN_GLOSSARIES is ''; it has to be the path of a file"),
        ("new_key = 'a'", {}, "has 'new_key', which is for the command line alone"),
        ("admin = true", {}, "has 'admin', which is for the command line alone"),
    ],
)
def test_what_is_wrong_is_named_by_where_it_stands(tmp_path, text, environment, message):
    (tmp_path / "serve.toml").write_text(text)
    with pytest.raises(DragomanError, match=message):
        read(["a", "--config", tmp_path / "serve.toml"], environment)


def test_what_one_place_gives_another_one_may_need(tmp_path):
    (tmp_path / "serve.toml").write_text("[server]\nhost = '0.0.0.0'")
    settings = read(["a", "--config", tmp_path / "serve.toml"], {"DRAGOMAN_API_KEYS": "keys.toml"})
    assert (settings.server.host, str(settings.server.api_keys)) == ("0.0.0.0", "keys.toml")


@given(st.from_regex(r"(-[a-z0-9]{1,8}){0,2}", fullmatch=True), st.integers(1, 65_535))
def test_variables_that_kubernetes_sets_for_its_services_are_no_options(name, port):
    service = f"dragoman{name}".upper().replace("-", "_")
    environment = {
        f"{service}_SERVICE_HOST": "10.0.0.1",
        f"{service}_SERVICE_PORT": str(port),
        f"{service}_SERVICE_PORT_HTTP": str(port),
        f"{service}_PORT": f"tcp://10.0.0.1:{port}",
        f"{service}_PORT_{port}_TCP": f"tcp://10.0.0.1:{port}",
        f"{service}_PORT_{port}_TCP_ADDR": "10.0.0.1",
    }
    assert read(["a"], environment) == read(["a"])
    if not name:
        assert read(["a"], environment | {"DRAGOMAN_PORT": "5"}).server.port == 5


def test_variables_of_other_parts_are_no_options():
    assert read(["a"], dict.fromkeys(OTHERS, "1")) == read(["a"])


@pytest.mark.long
def test_a_server_is_started_by_a_file_and_the_environment(trained, tmp_path, monkeypatch):
    path = tmp_path / "serve.toml"
    path.write_text(
        f"runs = ['{trained / 'run'}']\n[server]\nmax_texts = 1\nmax_n_best = 3\n[engine]\nnative = false\n"
    )
    monkeypatch.setenv("DRAGOMAN_MAX_N_BEST", "2")
    with serving("--config", path) as server, server.client() as client:
        assert client.get("/v1/models").json()["max_n_best"] == 2
        answer = client.post("/v1/translate", json={"text": ["amber", "birch"]})
        assert "The request has 2 texts; this server allows 1." in answer.text
