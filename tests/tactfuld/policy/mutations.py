"""Hypothesis strategies that damage a policy the way people, editors and attackers do."""

from hypothesis import strategies as st

TEXTS = ("%YAML 1.1\n", "---\n", "...\n", "&a ", "*a", "!!int ", "! ", "? ", "- ", ": ", "{", "}",
         "[", "]", '"\\UFFFFFFFF"', '"\\x', "\\ud800", "|", ">9", "#", "'", '"', "\n", "  ", ",",
         "<<: ", "@", "`", "null", "~", "\x85", "\ufffe", "\r", "\t", "0x1F", "1e400", "0.0001",
         "yes", "on: ", "unprotected: true", "positions: 9", "food", "health", "quota: {debt: 9}",
         "[health, food, finance]", "16", "apps:\n", "slots: ", "cap: 99\n",
         "shelves: [diet]", "never: [a]", "when: [b]")  # fmt: skip


@st.composite
def mutated(draw: st.DrawFn, text: str) -> str:
    """`text` after one to four edits of characters or lines."""
    for _ in range(draw(st.integers(1, 4))):
        edit = draw(st.sampled_from([insert_text, drop_run, swap_lines, repeat_line, drop_line]))
        text = draw(edit(text))
    return text


@st.composite
def insert_text(draw: st.DrawFn, text: str) -> str:
    at = draw(st.integers(0, len(text)))
    return text[:at] + draw(st.sampled_from(TEXTS) | st.text(max_size=3)) + text[at:]


@st.composite
def drop_run(draw: st.DrawFn, text: str) -> str:
    start = draw(st.integers(0, len(text)))
    return text[:start] + text[start + draw(st.integers(1, 30)) :]


@st.composite
def swap_lines(draw: st.DrawFn, text: str) -> str:
    lines = text.split("\n")
    one, other = (draw(st.integers(0, len(lines) - 1)) for _ in range(2))
    lines[one], lines[other] = lines[other], lines[one]
    return "\n".join(lines)


@st.composite
def repeat_line(draw: st.DrawFn, text: str) -> str:
    lines = text.split("\n")
    line = lines[draw(st.integers(0, len(lines) - 1))]
    lines.insert(draw(st.integers(0, len(lines))), line)
    return "\n".join(lines)


@st.composite
def drop_line(draw: st.DrawFn, text: str) -> str:
    lines = text.split("\n")
    del lines[draw(st.integers(0, len(lines) - 1))]
    return "\n".join(lines)
