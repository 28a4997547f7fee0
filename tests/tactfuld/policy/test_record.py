"""The policy in force between runs: what comes back is what was written, or nothing."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.tactfuld.policy.texts import POLICY, STANDING
from tests.tactfuld.policy.variants import BASE, policy

from tactful_policies import STARTERS, starter_text
from tactfuld.policy.loading import parse_document
from tactfuld.policy.promises import digest_of
from tactfuld.policy.record import InEpoch, read_record, text_of, write_record


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "policy-in-force.json"


@pytest.mark.parametrize("text", [POLICY, STANDING, *map(starter_text, STARTERS)])
def test_a_policy_is_read_back_as_it_was(text: str, file: Path) -> None:
    document = parse_document(text, source="policy.yaml")
    write_record(file, [InEpoch(1, 20_000, at_once=False, document=document)])
    (kept,) = read_record(file)
    assert kept == InEpoch(1, 20_000, at_once=False, document=document)
    assert digest_of(kept.document) == digest_of(document)
    assert parse_document(text_of(document), source="again") == document


def test_the_two_newest_epochs_are_kept(file: Path) -> None:
    epochs = [InEpoch(n, n, at_once=n == 2, document=policy(tick="04:30")) for n in (3, 1, 2)]
    write_record(file, epochs)
    assert [(kept.epoch, kept.at_once) for kept in read_record(file)] == [(2, True), (3, False)]


def test_the_record_is_for_its_owner_alone(file: Path) -> None:
    write_record(file, [InEpoch(1, 1, at_once=False, document=BASE)])
    assert file.stat().st_mode & 0o777 == 0o600
    assert [path.name for path in file.parent.iterdir()] == [file.name]


@pytest.mark.parametrize(
    "damage",
    [
        lambda _: "",
        lambda text: text[:-9],
        lambda text: text.replace("cap", "cup"),
        lambda text: text.replace('"epoch":1', '"epoch":0'),
        lambda text: text.replace('"tick"', '"tock"'),
        lambda _: json.dumps({"epochs": "none"}),
    ],
)
def test_a_damaged_record_has_no_epochs(damage: object, file: Path) -> None:
    write_record(file, [InEpoch(1, 1, at_once=False, document=BASE)])
    file.write_text(damage(file.read_text()))  # type: ignore[operator]
    assert read_record(file) == ()


def test_a_missing_record_has_no_epochs(file: Path) -> None:
    assert read_record(file) == ()
