"""`minires` shows its public names, loads them when asked, and helps with a misspelled one."""

import subprocess
import sys

import pytest

import minires
from minires import api


@pytest.mark.parametrize("name", api.__all__)
def test_every_public_name_is_there(name):
    assert getattr(minires, name) is getattr(api, name)
    assert name in dir(minires)


@pytest.mark.parametrize("name", sorted(minires._FUNCTIONS & set(api.__all__)))
def test_a_function_is_not_hidden_by_the_file_of_its_name(name):
    code = (  # in a process of its own: reloading a module here would leave two of each of its classes
        "import importlib, sys, types, minires\n"
        f"importlib.reload(importlib.import_module('minires.{name}'))\n"
        f"assert isinstance(sys.modules['minires.{name}'], types.ModuleType)\n"
        f"assert not isinstance(minires.{name}, types.ModuleType)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_part_of_the_package_loads_when_it_is_named():
    assert minires.models.DecoderLM.__name__ == "DecoderLM"


def test_a_misspelled_name_is_explained():
    with pytest.raises(AttributeError, match=r"no 'layernrom'.*Did you mean 'layernorm'"):
        minires.layernrom  # noqa: B018


def test_star_import_gives_the_public_names():
    names: dict = {}
    exec("from minires import *", names)
    assert set(api.__all__) <= set(names)
