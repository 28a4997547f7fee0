"""Envelopes are one line; people and programs are told apart."""

import io
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tactful.cli.output import TrimmedStream, envelope, error_envelope, open_output


@given(st.text(st.characters(codec="utf-8")))
def test_an_envelope_is_one_line_of_json_whatever_it_holds(text: str) -> None:
    line = envelope({"text": text})
    assert "\n" not in line
    assert json.loads(line) == {"data": {"text": text}}
    told = {"code": "denied", "message": text}
    assert json.loads(error_envelope(told)) == {"error": told}


def test_with_json_people_are_told_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    output = open_output(as_json=True)
    output.show({"n": 1}, lambda console: console.print("for people"))
    assert capsys.readouterr().out == '{"data":{"n":1}}\n'


def test_without_json_programs_are_told_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    output = open_output(as_json=False)
    output.show({"n": 1}, lambda console: console.print("for people"))
    assert capsys.readouterr().out == "for people\n"


def test_without_a_terminal_there_is_no_control_character_even_if_colour_is_forced(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    open_output(as_json=False).console.print("calm", style="bold red")
    assert capsys.readouterr().out == "calm\n"


@given(st.lists(st.text(st.sampled_from("a \n"))))
def test_no_line_ends_in_spaces_however_it_is_written(pieces: list[str]) -> None:
    paper = io.StringIO()
    stream = TrimmedStream(paper)
    for piece in pieces:
        stream.write(piece)
    text = "".join(pieces)
    assert paper.getvalue() == "\n".join(line.rstrip(" ") for line in text.split("\n"))
