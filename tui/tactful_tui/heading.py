"""The lines above the panels: which profile, how the daemon is, which epoch, what needs a look.

Decides their words. What is *not* here: the panels, and what the daemon's own sentences say.
"""

from __future__ import annotations

from rich.cells import cell_len
from textual.content import Content

from tactful.inbox_words import in_the_inbox
from tactful.owner_wire import ModelStatus, Status
from tactful.visible_text import visible
from tactful_tui.row import cut
from tactful_tui.watch import Phase, Watch

NAME = "tactful"
_RENEWALS = {"manual": "renewed by hand", "weekly": "renewed weekly", "monthly": "renewed monthly"}
_UNREADABLE = (
    "The ledger cannot be read, so every attribute counts as used up and apps get generic answers."
)


def heading(watch: Watch, profile: str, cells: int) -> Content:
    """Two lines: the daemon and the epoch; the model and the profile."""
    state = Content.assemble((f" {NAME}  ", "bold $primary"), _state(watch))
    below = Content.styled(f" {_model(watch.status) if _answers(watch) else ''}", "$muted")
    return Content("\n").join(
        [_ends(state, _epoch(watch), cells), _ends(below, f"profile {profile} ", cells)]
    )


def messages(watch: Watch) -> Content:
    """What needs a look: the connection's problem, then the daemon's notices; often nothing."""
    lines: list[Content] = []
    if watch.problem is not None:
        lines.append(Content.styled(f"! {visible(watch.problem)}", "$error"))
        if watch.figures is not None:
            then = f"{watch.figures.at:%H:%M:%S}"
            lines.append(Content.styled(f"  The figures below are those of {then}.", "$muted"))
    told = [_UNREADABLE] if watch.figures is not None and not watch.figures.ledger.readable else []
    if watch.status is not None and _answers(watch):
        told += [watch.status.model.problem or "", *watch.status.notices]
    lines += [Content.styled(f"! {visible(notice)}", "$warning") for notice in told if notice]
    if watch.status is not None and _answers(watch) and watch.status.inbox:
        lines.append(Content.styled(f"  {in_the_inbox(watch.status.inbox)}", "$accent"))
    return Content("\n").join(lines)


def _answers(watch: Watch) -> bool:
    return watch.phase in (Phase.LIVE, Phase.REFUSING)


def _state(watch: Watch) -> Content:
    match watch.phase:
        case Phase.CONNECTING:
            return Content.styled("○ connecting", "$muted")
        case Phase.DOWN:
            return Content.styled("○ not running", "$error")
        case Phase.LOST:
            return Content.styled("○ not reached", "$error")
        case Phase.REFUSING:
            locked = watch.status is not None and watch.status.locked
            return Content.styled("● locked" if locked else "● running, no figures", "$warning")
        case Phase.LIVE:
            return _daemon(watch.status)


def _daemon(status: Status | None) -> Content:
    if status is None or status.ready:
        return Content.styled("● running", "$success")
    if status.model.state == "failed":
        return Content.styled("● running without a model", "$error")
    return Content.styled("● starting", "$warning")


def _model(status: Status | None) -> str:
    if status is None or status.locked:
        return ""
    model = visible(status.model.name)
    told = f"{_progress(status.model)}{_on_gpu(status.model)}"
    if status.model.answers_from is not None:
        told += f" · apps answered by {visible(status.model.answers_from)}"
    return f"model {model}, {told} · sandbox {visible(status.sandbox)}"


def _progress(model: ModelStatus) -> str:
    return f"{model.progress:.0%} loaded" if model.state == "loading" else visible(model.state)


def _on_gpu(model: ModelStatus) -> str:
    """Said where it holds, for the processor is what one expects."""
    return " on the GPU" if model.gpu is not None and model.gpu.offloaded else ""


def _epoch(watch: Watch) -> str:
    if watch.figures is None or not watch.figures.ledger.readable:
        return ""
    renewal = watch.figures.renewal or ""
    told = _RENEWALS.get(renewal, visible(renewal))
    return f"epoch {watch.figures.ledger.epoch}, {told} " if told else ""


def _ends(left: Content, right: str, cells: int) -> Content:
    """Both at their ends of one line; the right one is cut first."""
    start = left.truncate(max(cells, 0), ellipsis=True)
    room = cells - start.cell_length - 2
    end = cut(right.rstrip(), room - 1) + " " if room > 8 else ""
    gap = " " * max(cells - start.cell_length - cell_len(end), 0)
    return Content.assemble(start, gap, (end, "$muted"))
