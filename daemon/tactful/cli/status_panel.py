"""The daemon's state, for the owner's eyes.

Decides how `tactful status` and `tactful apps list` look. What is *not* here: asking the daemon.
"""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from tactful.cli.accounts import ALARM_STYLES
from tactful.inbox_words import in_the_inbox
from tactful.owner_wire import AppStatus, GpuStatus, LedgerReply, ModelStatus, Status
from tactful.spending import alarm, left_in_words
from tactful.visible_text import visible

_STYLES = {
    "ready": "green", "running": "green", "loading": "yellow",
    "asleep": "dim", "paused": "yellow", "failed": "red", "parked": "red", "stopped": "yellow",
}  # fmt: skip


def show_status(
    console: Console, status: Status, ledger: LedgerReply | None, next_command: str
) -> None:
    """One screen: daemon, model, apps, ledgers, what needs a look, and what to type next.

    Little while it is locked.
    """
    if status.locked:
        console.print(
            Text.assemble(
                (f"tactfuld {visible(status.version)} ", "bold"),
                ("locked", "yellow"),
                (f"   process {status.pid}", "dim"),
            )
        )
        console.print(f"Nothing is served until `{next_command}`.", soft_wrap=True)
        return
    state = "ready" if status.ready else "not ready yet"
    console.print(
        Text.assemble(
            (f"tactfuld {visible(status.version)} ", "bold"),
            (state, "green" if status.ready else "yellow"),
            (f"   process {status.pid}", "dim"),
        )
    )
    console.print()
    table = _grid()
    table.add_row(Text("model"), _model(status.model))
    if status.model.answers_from is not None:
        told = f"answers leave this machine: {visible(status.model.answers_from)} answers apps"
        table.add_row(Text("remote"), Text(told, style="yellow", overflow="fold"))
    if status.resident_bytes is not None:
        table.add_row(Text("memory"), Text(_memory(status.resident_bytes, status.model)))
    for name, value in (
        ("data", status.profile),
        ("key", status.key_source),
        ("sandbox", status.sandbox),
        ("policy", f"{status.policy} · {status.positions} positions"),
    ):
        table.add_row(Text(name), Text(visible(value), overflow="fold"))
    console.print(Padding(table, (0, 0, 0, 2), expand=False))
    console.print()
    show_apps(console, status.apps)
    if ledger is not None:
        _show_ledger(console, ledger)
    if status.inbox:
        console.print(Text(in_the_inbox(status.inbox)))
    for notice in status.notices:
        console.print(Text(f"! {visible(notice)}", style="yellow"))
    console.print(Text.assemble(("next  ", "dim"), next_command), soft_wrap=True)


def next_step(status: Status) -> str:
    """The command that helps most in this state."""
    if status.locked:
        return "unlock"
    match status.model.state:
        case "loading":
            return "status --wait"
        case "failed":
            return "model list"
        case _:
            return 'ask "What should I keep in mind?"'


def _show_ledger(console: Console, ledger: LedgerReply) -> None:
    console.print(Text(f"ledgers of epoch {ledger.epoch}", style="dim"))
    if not ledger.readable:
        console.print(Text("  They cannot be read, so all count as used up.", style="red"))
        return
    table = _grid()
    for line in ledger.lines:
        table.add_row(
            Text(visible(line.attribute), style="bold"),
            Text(f"{line.spent:.3f} of {line.cap:.3f}"),
            Text(left_in_words(line), style=ALARM_STYLES[alarm(line)]),
        )
    console.print(Padding(table, (0, 0, 0, 2), expand=False))


_NO_SLOTS = "no slots: it may ask nothing"


def show_apps(console: Console, apps: Sequence[AppStatus]) -> None:
    """One line for each app that the policy names."""
    if not apps:
        console.print("The policy names no apps, so none may ask anything.")
        return
    table = _grid()
    for app in apps:
        nothing = "installed, and granted nothing" if app.state == "disabled" else _NO_SLOTS
        slots = ", ".join(app.slots) or nothing
        table.add_row(
            Text(visible(app.app), style="bold"),
            Text(visible(app.state), style=_STYLES.get(app.state, "")),
            Text(visible(slots)),
        )
        if app.problem is not None:
            table.add_row("", "", Text(visible(app.problem), style="yellow"))
    console.print(Text("apps", style="dim"))
    console.print(Padding(table, (0, 0, 0, 2), expand=False))


def _model(model: ModelStatus) -> Text:
    share = f" {model.progress:.0%}" if model.state == "loading" else ""
    text = Text.assemble(
        f"{visible(model.name)} ", (f"{model.state}{share}", _STYLES.get(model.state, ""))
    )
    if model.gpu is not None:
        text.append(f" on {_place(model.gpu)}")
    return text if model.problem is None else text.append(f": {visible(model.problem)}")


def _memory(resident: int, model: ModelStatus) -> str:
    daemon = f"{_mib(resident)} MiB"
    if model.memory_bytes is None:
        return f"{daemon}, no model in it"
    return f"{daemon}; weights and caches of the model take {_mib(model.memory_bytes)} MiB"


def _mib(count: int) -> int:
    return round(count / (1 << 20))


def _place(gpu: GpuStatus) -> str:
    if not gpu.offloaded:
        return "the CPU"
    share = f"{gpu.offloaded_layers} of {gpu.layers} layers"
    return f"the GPU: {share} on {visible(gpu.place)}"


def _grid() -> Table:
    return Table.grid(padding=(0, 2))
