"""Groups state their shape, and refuse rows that do not have it."""

import pytest

from tactfuld.inference.errors import PromptTooLong
from tactfuld.inference.groups import MOST_ROWS, GroupShape, SequenceGroup
from tactfuld.inference.rows import Row

ROWS = ((1, 2, 3, 4), (1, 2, 5, 6), (1, 2, 7, 8))


def test_what_is_shared_is_read_once_in_all_sequences_and_the_rest_apart() -> None:
    group = SequenceGroup(ROWS, shared=2)
    assert group.shape == GroupShape(rows=3, length=4, shared=2)
    assert group.reading() == [
        Row(1, 0, (0, 1, 2), logits=False),
        Row(2, 1, (0, 1, 2), logits=False),
        Row(3, 2, (0,), logits=False),
        Row(5, 2, (1,), logits=False),
        Row(7, 2, (2,), logits=False),
    ]
    assert group.last() == (4, 6, 8)


def test_rows_that_happen_to_be_alike_are_read_as_if_they_were_not() -> None:
    """Else the work would tell whether a cell is empty."""
    different = SequenceGroup(ROWS, shared=1).reading()
    alike = SequenceGroup((ROWS[0],) * 3, shared=1).reading()
    shape = [(row.position, row.sequences) for row in different]
    assert shape == [(row.position, row.sequences) for row in alike]


def test_cells_count_what_is_shared_once_and_the_reply_in_every_row() -> None:
    assert GroupShape(rows=3, length=10, shared=4).cells(5) == 4 + 3 * (6 + 5)


@pytest.mark.parametrize(
    ("rows", "shared", "complaint"),
    [
        ((), 0, "1 to 32 rows"),
        (((1, 2),) * (MOST_ROWS + 1), 0, "1 to 32 rows"),
        (((1, 2), (1, 2, 3)), 0, "same length"),
        (((), ()), 0, "same length"),
        (((1, 2), (1, 3)), 2, "shorter"),
        (((1, 2), (1, 3)), -1, "shorter"),
        (((1, 2, 3), (1, 4, 3)), 2, "differ"),
    ],
)
def test_refuses_what_is_no_group(
    rows: tuple[tuple[int, ...], ...], shared: int, complaint: str
) -> None:
    with pytest.raises(ValueError, match=complaint):
        SequenceGroup(rows, shared)


def test_its_text_form_shows_no_token() -> None:
    assert "987654" not in repr(SequenceGroup(((987654, 1),)))


@pytest.mark.parametrize(
    "shape", [GroupShape(2, 100, 0), GroupShape(30, 60, 0), GroupShape(1, 91, 90)]
)
def test_refuses_a_shape_that_never_fits(shape: GroupShape) -> None:
    with pytest.raises(PromptTooLong):
        shape.refuse_unless_it_fits(10, 100)
    GroupShape(9, 60, 50).refuse_unless_it_fits(10, 100)
