"""`tactful doctor` tells every check, and its exit status says whether all is well."""

from tests.tactful.cli.command_line import Tactful
from tests.tactful.cli.fake_tactfuld import PASSPHRASE


def test_all_is_well_with_what_is_not_applicable(made: Tactful) -> None:
    result = made.run("doctor", TACTFUL_PASSPHRASE=PASSPHRASE)
    assert (result.status, result.err) == (0, "")
    assert [line.split()[:2] for line in result.out.splitlines()[:4]] == [
        ["ok", "lock"],
        ["Make", "a"],
        ["ok", "keys"],
        ["-", "linger"],
    ]
    assert result.out.endswith("All is well.\n")


def test_what_could_not_be_looked_at_is_not_well(made: Tactful) -> None:
    result = made.run("doctor")
    assert (result.status, result.err) == (1, "")
    assert "Not all is well: 1 that could not be looked at." in result.out


def test_problems_come_with_what_to_do(tactful: Tactful) -> None:
    result = tactful.run("doctor")
    assert (result.status, result.err) == (1, "")
    assert "Make a profile." in result.out
    assert "Not all is well: 1 problem, 1 that could not be looked at." in result.out


def test_in_json_it_is_data_whatever_the_status(made: Tactful) -> None:
    well = made.run("doctor", "--json", TACTFUL_PASSPHRASE=PASSPHRASE)
    not_well = made.run("doctor", "--json")
    assert (well.status, not_well.status) == (0, 1)
    states = [[check["state"] for check in each.data["checks"]] for each in (well, not_well)]
    assert states == [["ok", "ok", "not_applicable"], ["ok", "unknown", "not_applicable"]]
    assert list(well.data["checks"][0]) == ["name", "state", "detail", "advice"]


def test_a_child_that_breaks_is_an_error_and_no_report(made: Tactful) -> None:
    result = made.run("doctor", "--json", FAKE_TACTFULD='{"mute": "doctor"}')
    assert (result.status, result.error["code"]) == (70, "internal_error")
