"""Units convert exactly or not at all; a secret never shows what it holds."""

import copy
import json
import logging
import pickle
import pprint
from collections.abc import Callable
from dataclasses import asdict
from decimal import Decimal
from fractions import Fraction
from operator import itemgetter
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tactful_core.errors import ContractError
from tactful_core.scoring import Evidence
from tactful_core.values import UNITS_PER_EPSILON, Secret, Units, epsilon_of, units_from_epsilon

MARKER = "the owner has diabetes"
NEW_NAME = "note"


# ---- units --------------------------------------------------------------------------------------


@given(st.decimals("0.001", "1000000", places=3))
def test_three_decimals_convert_exactly(epsilon: Decimal) -> None:
    assert units_from_epsilon(epsilon) == Fraction(epsilon) * UNITS_PER_EPSILON


@given(st.decimals("0.001", "24", places=3), st.integers(1, 16))
def test_a_cap_divides_into_up_to_sixteen_whole_charges(cap: Decimal, charges: int) -> None:
    assert units_from_epsilon(cap) % charges == 0


def test_one_thousandth_divides_by_every_number_up_to_sixteen() -> None:
    thousandth = units_from_epsilon("0.001")
    assert [k for k in range(1, 17) if thousandth % k != 0] == []
    assert thousandth % 17 != 0


@pytest.mark.parametrize("epsilon", [1, "1", "1.000", "1e0", "0.01E+2", Decimal(1)])
def test_ways_to_write_one_are_equal(epsilon: Decimal | int | str) -> None:
    assert units_from_epsilon(epsilon) == UNITS_PER_EPSILON


def test_a_large_cap_is_exact() -> None:
    assert units_from_epsilon("1E+30") == 10**30 * UNITS_PER_EPSILON


@pytest.mark.parametrize("epsilon", ["0", "-1", "-0.001", "nan", "sNaN", "inf", "-inf", 0, -2])
def test_refuses_what_is_not_a_positive_number(epsilon: int | str) -> None:
    with pytest.raises(ContractError, match="positive number"):
        units_from_epsilon(epsilon)


@pytest.mark.parametrize("epsilon", ["", "two", "0x10", "1,5", "1 2"])
def test_refuses_what_is_no_number_without_repeating_it(epsilon: str) -> None:
    with pytest.raises(ContractError) as refused:
        units_from_epsilon(epsilon)
    assert not epsilon or epsilon not in str(refused.value)


@pytest.mark.parametrize("epsilon", ["0.0001", "1.0005", "1.00000000000000000000000000000001"])
def test_refuses_more_than_three_decimals_however_many(epsilon: str) -> None:
    with pytest.raises(ContractError, match="three decimals"):
        units_from_epsilon(epsilon)


@given(st.integers(1, 24_000))
@example(2_000)
def test_an_epsilon_to_read_is_the_one_that_was_written(thousandths: int) -> None:
    assert epsilon_of(units_from_epsilon(Decimal(thousandths) / 1000)) == thousandths / 1000


def test_thirds_of_a_cap_read_as_in_the_paper() -> None:
    assert f"{epsilon_of(Units(units_from_epsilon(2) // 3)):.6f}" == "0.666667"


# ---- secrets ------------------------------------------------------------------------------------

REFUSED_USES: dict[str, Callable[[Any], object]] = {
    "str": str,
    "format": lambda secret: format(secret, ""),
    "f-string": lambda secret: f"{secret}",
    "str.format": "{}".format,
    "percent": "%s".__mod__,
    "join": lambda secret: str.join("", [secret]),
    "concatenation": lambda secret: "" + secret,
    "bytes": bytes,
    "pickle": pickle.dumps,
    "old pickle": lambda secret: pickle.dumps(secret, protocol=0),
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    "deepcopy of a container": lambda secret: copy.deepcopy([secret]),
    "json": json.dumps,
    "json as text": lambda secret: json.dumps(secret, default=str),
    "equality": lambda secret: secret == MARKER,
    "inequality": lambda secret: secret != MARKER,
    "equality with a secret": lambda secret: secret == Secret(MARKER),
    "search": lambda secret: [secret].index(MARKER),
    "hash": hash,
    "member of a set": lambda secret: {secret},
    "key of a mapping": lambda secret: {secret: 1},
    "order": lambda secret: sorted([secret, secret]),
    "length": len,
    "iteration": list,
    "index": itemgetter(0),
    "vars": vars,
}


@pytest.mark.parametrize("use", REFUSED_USES.values(), ids=REFUSED_USES)
def test_a_secret_refuses(use: Callable[[Any], object]) -> None:
    with pytest.raises((ContractError, TypeError)) as refused:
        use(Secret(MARKER))
    assert MARKER not in str(refused.value)


@pytest.mark.parametrize(
    "show",
    [repr, ascii, lambda secret: f"{secret!r}", lambda secret: repr([secret]), pprint.pformat],
)
def test_what_is_shown_of_a_secret_hides_it(show: Callable[[object], str]) -> None:
    assert MARKER not in show(Secret(MARKER))


def test_a_record_that_holds_secrets_hides_them_and_is_not_copied() -> None:
    evidence = Evidence(Secret((0.123456,)), Secret((0.123456,)))
    assert "0.123456" not in repr(evidence)
    with pytest.raises(ContractError):
        asdict(evidence)
    with pytest.raises(TypeError):
        hash(evidence)


def test_logging_a_secret_writes_nothing_of_it(
    capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    """`logging` reports on the error stream that it could not format; that hides it as well."""
    handler = logging.StreamHandler()
    logger = logging.getLogger("tests.secret")
    logger.addHandler(handler)
    logger.propagate = False
    try:
        logger.warning("remembered: %s", Secret(MARKER))
        logger.warning("remembered: %r", Secret(MARKER))
    finally:
        logger.removeHandler(handler)
    written = capsys.readouterr()
    assert "Secret" in written.err
    assert MARKER not in written.err + written.out + caplog.text


def test_revealing_is_the_way_to_the_value() -> None:
    value = object()
    assert Secret(value).reveal() is value


def test_a_secret_takes_no_other_attributes() -> None:
    with pytest.raises(AttributeError):
        setattr(Secret(MARKER), NEW_NAME, MARKER)
