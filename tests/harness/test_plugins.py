"""What is reported of a plugin whose module cannot be imported or lacks the value."""

from __future__ import annotations

import sys

import pytest

from harness import plugins
from harness.model import BadInput
from harness.model.errors import EXIT_USAGE

MODULES = {
    # case: content of the module, what is reported after the place
    "an attribute error": ("None.x", "AttributeError: 'NoneType' object has no attribute 'x'"),
    "an error in several lines": ("raise ValueError('one\\n\\n  two')", "ValueError: one two"),
    "a syntax error": ("def", "SyntaxError: invalid syntax (plugin.py, line 1)"),
    "a missing dependency": ("import no_such_module", "ModuleNotFoundError: No module named 'no_such_module'"),
}


@pytest.fixture
def load(monkeypatch, tmp_path):
    """Loads plugin:SYSTEM from a module with this content; returns the message with which that is refused."""

    def load_from(content):
        (tmp_path / "plugin.py").write_text(content)
        monkeypatch.syspath_prepend(tmp_path)
        with pytest.raises(BadInput) as refused:
            plugins.system("plugin:SYSTEM")
        assert refused.value.exit_code == EXIT_USAGE
        return str(refused.value)

    yield load_from
    sys.modules.pop("plugin", None)


@pytest.mark.parametrize(("content", "problem"), MODULES.values(), ids=MODULES)
def test_an_error_inside_a_module_is_reported_as_it_is_in_one_line(load, content, problem):
    assert load(content) == f"system 'plugin:SYSTEM': importing plugin failed: {problem}"


def test_a_value_that_a_module_lacks_is_reported_as_missing(load):
    message = load("")
    assert message.startswith("system 'plugin:SYSTEM': expected the name of a value in the module: ")
    assert message.endswith("has no attribute 'SYSTEM'")
