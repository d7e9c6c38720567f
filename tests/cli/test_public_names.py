"""`minires` shows its public names, loads them when asked, and helps with a misspelled one."""

import importlib
import sys
from types import ModuleType

import pytest

import minires
from minires import api


@pytest.mark.parametrize("name", api.__all__)
def test_every_public_name_is_there(name):
    assert getattr(minires, name) is getattr(api, name)
    assert name in dir(minires)


@pytest.mark.parametrize("name", sorted(minires._FUNCTIONS & set(api.__all__)))
def test_a_function_is_not_hidden_by_the_file_of_its_name(name):
    importlib.reload(importlib.import_module(f"minires.{name}"))
    assert isinstance(sys.modules[f"minires.{name}"], ModuleType)
    assert not isinstance(getattr(minires, name), ModuleType)


def test_a_part_of_the_package_loads_when_it_is_named():
    assert minires.models.DecoderLM.__name__ == "DecoderLM"


def test_a_misspelled_name_is_explained():
    with pytest.raises(AttributeError, match=r"no 'layernrom'.*Did you mean 'layernorm'"):
        minires.layernrom  # noqa: B018


def test_star_import_gives_the_public_names():
    names: dict = {}
    exec("from minires import *", names)
    assert set(api.__all__) <= set(names)
