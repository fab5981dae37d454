"""Values that a model refuses are described in our words, whatever the model's library calls the error."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from harness.model.validation import NOT_NAMED, Matching, dotted, first_problem, one_of
from harness.planning.plan import Plan, ReproductionRequest, Request
from nodes.hosts.ssh.inventory import Inventory

LEAKS = ("Input should", "Value error", "pydantic", "validat", "parsing", "Extra inputs", "Field required", "^", "dict")


class Inner(BaseModel):
    model_config = ConfigDict(extra="forbid")

    depth: int = 0


class Example(BaseModel):
    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)

    count: int = Field(default=1, gt=0, le=9)
    rate: float = 1.5
    on: bool = True
    name: Annotated[str, Matching("[a-z]+", "lower-case letters")] = "a"
    side: Literal["bad", "good", "both"] = "bad"
    fault: Annotated[str, one_of(("kill", "partition"))] = "kill"
    inner: list[Inner] = []
    weights: dict[Annotated[str, one_of(("kill", "pause"))], float] = {}


CASES: dict[str, tuple[dict[str, Any], str]] = {
    "too small": ({"count": -5}, "count: expected more than 0, found -5"),
    "too small, as text": ({"count": "-5"}, "count: expected more than 0, found -5"),
    "too large": ({"count": 10}, "count: expected 9 or less, found 10"),
    "a word as whole number": ({"count": "many"}, "count: expected a whole number, found 'many'"),
    "a fraction as whole number": ({"count": 1.5}, "count: expected a whole number, found 1.5"),
    "a number of many digits": ({"count": "9" * 5000}, "count: expected a whole number, found '9999"),
    "not a number": ({"rate": "nan"}, "rate: expected a finite number, found 'nan'"),
    "a list as number": ({"rate": [1, {"a": None}]}, 'rate: expected a number, found [1, {"a": null}]'),
    "a word as truth": ({"on": "perhaps"}, "on: expected true or false, found 'perhaps'"),
    "text of another form": ({"name": "A b"}, "name: expected lower-case letters, found 'A b'"),
    "text with a line end": ({"name": "a\n"}, r"name: expected lower-case letters, found 'a\n'"),
    "nothing as text": ({"name": None}, "name: expected text, found nothing"),
    "a choice": ({"side": "goood"}, "side: expected one of bad, good, both, found 'goood'; did you mean good?"),
    "a name": ({"fault": "partitoin"}, "fault: expected kill or partition, found 'partitoin'; did you mean partition?"),
    "a name in a table": ({"weights": {"puase": 1}}, "weights.puase: expected kill or pause, found 'puase'; did you m"),
    "an unknown key": ({"cuont": 1}, "cuont: expected one of the keys count, fault, inner, name, on, rate, side, weig"),
    "a near key": ({"cuont": 1}, "; did you mean count?"),
    "an unknown key in a list": ({"inner": [{"deph": 1}]}, "inner.0.deph: expected one of the keys depth; did you"),
    "no list": ({"inner": 3}, "inner: expected a list, found 3"),
    "no table": ({"inner": ["a"]}, "inner.0: expected a table of keys and values, found 'a'"),
    "two problems": ({"count": 0, "rate": "x"}, "found 0 (and 1 more)"),
}


def problem_of(model: type[BaseModel], values: Any) -> str:
    with pytest.raises(ValidationError) as refused:
        model.model_validate(values)
    problem = first_problem(refused.value, model)
    return f"{dotted(problem.path)}: {problem}"


@pytest.mark.parametrize(("values", "expected"), CASES.values(), ids=CASES)
def test_problem_names_the_path_and_what_was_expected_and_found(values: dict[str, Any], expected: str) -> None:
    assert expected in problem_of(Example, values)


SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | st.dates()
VALUES = st.recursive(SCALARS, lambda each: st.lists(each, max_size=3) | st.dictionaries(st.text(max_size=5), each))


@pytest.mark.parametrize("model", [Request, ReproductionRequest, Plan, Inventory], ids=lambda model: model.__name__)
@given(data=st.data())
def test_no_value_of_any_key_of_our_models_gets_the_librarys_words(model: type[BaseModel], data: st.DataObject) -> None:
    names = sorted(field.alias or name for name, field in model.model_fields.items())
    values = data.draw(st.dictionaries(st.sampled_from(names) | st.text(max_size=6), VALUES, max_size=3))
    try:
        model.model_validate(values)
    except ValidationError as error:
        problem = first_problem(error, model)
        assert not [leak for leak in (*LEAKS, NOT_NAMED) if leak in problem.expected]
        assert f"{dotted(problem.path)}{problem}".isprintable()
