"""A stand-in for `tactfuld`: the same program interface and wire, a toy inside.

`serve` answers the owner's methods from memory, charges by the demo's rule (cap 2, a third of it
each time) and routes by words; its last shelf is covered by nothing. `one-shot` makes folders. Its
profile is locked by `PASSPHRASE`.
What a test wants to go wrong stands in `FAKE_TACTFULD`, a JSON object in the environment:

    {"keyring": str}           `one-shot init-choices` finds this one
    {"model_missing": true}    it finds no model
    {"sandbox_problem": str}   `one-shot init` finds this, unless the sandbox is off
    {"fail": {COMMAND: code}}  `serve`, `init`, `model-install` or `ledger-restore` end with this
    {"mute": COMMAND}          it ends without an answer, after a complaint on standard error
    {"hang": COMMAND}          it says that it began, and then nothing
    {"loading": int}           how often status says that the model is still loading
    {"model": "failed"}        the model does not load
    {"stop_after": seconds}    it takes so long to stop
    {"die_on": METHOD}         the daemon ends in the middle of this method
    {"hang_on": METHOD}        the answer of `tell`, `ask.as` or `ask.owner` never ends
    {"read": int}              so many memories fit the model's context
    {"remembered": {SHELF: text}}  this is remembered from the start
    {"staged": {...}}          what of the policy file waits, else that nothing does
    {"reloaded": {...}}        what a look at the settings file finds, else that all is in force
    {"exposed": attribute}     it was read without protection
    {"fused": attribute}       text was fused from its shelves
    {"mismatch": true}         the entries do not give the sums
    {"unreadable": true}       the ledger cannot be read
    {"rival": true}            somebody else opens an epoch whenever the open one is looked at
"""

import asyncio
import json
import os
import signal
import socket
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NoReturn

from pydantic import JsonValue

from tactful.errors import (
    AlreadyExists,
    Denied,
    DoesNotFit,
    InvalidParams,
    KeyUnavailable,
    Locked,
    NotAuthenticated,
    NotFound,
    NotReady,
    PassphraseNeeded,
    UnknownMethod,
    Unusable,
    WouldUncover,
)
from tactful.model_reports import (
    InstalledModel,
    KnownModel,
    ModelInfo,
    ModelList,
    ModelObtained,
    ModelRemoved,
    ModelUse,
)
from tactful.owner_wire import (
    AppsList,
    AppStatus,
    AppToken,
    CoverageWarning,
    Distance,
    EpochHistory,
    EpochLine,
    EpochReply,
    EpochSums,
    EventLine,
    EventsReply,
    EventsTail,
    Forgotten,
    FusedLine,
    FusedText,
    GpuStatus,
    HistoryForget,
    HistoryItem,
    HistoryList,
    HistoryListReply,
    HistoryTurn,
    HistoryView,
    InboxItem,
    InboxRemove,
    InboxRemoved,
    InboxReply,
    KeysRotated,
    LedgerLine,
    LedgerReply,
    LintFinding,
    LintReply,
    MemoryFound,
    MemoryItem,
    MemoryList,
    MemorySuggestion,
    MemorySuggestions,
    ModelStatus,
    Moved,
    OwnerMethod,
    OwnersAnswer,
    Proposal,
    Reloaded,
    Remembered,
    Replay,
    Selection,
    ShelfChoice,
    ShelfInfo,
    StagedPolicy,
    Status,
    TellReply,
    Turn,
    TurnStarted,
)
from tactful.peer import Call, Limits, Peer, open_streams
from tactful.profile import Profile
from tactful.wire import Empty, Message, Notification

INBOX = (
    InboxItem(
        id=1,
        kind="notice",
        app="meals",
        at=1_800_000_000,
        title="Dinner",
        text="Soup \x1b[2Jis on.",
        slot=None,
    ),
    InboxItem(
        id=2,
        kind="proposal",
        app="meals",
        at=1_800_000_060,
        title="",
        text="I avoid sugary food.",
        slot="food",
    ),
)
EVENTS = (
    EventLine(
        number=1,
        at=1_800_000_000,
        app="meals",
        id=7,
        kind="timer",
        about="morning",
        fate="waiting",
    ),
    EventLine(
        number=2,
        at=1_800_000_001,
        app="meals",
        id=7,
        kind="timer",
        about="morning",
        fate="handled",
    ),
)
FUSED = FusedLine(
    delta=1e-5,
    spent=3.0,
    epsilon=8.0,
    promised=8.0,
    lifetime=4.0,
    odds=3.5,
    promised_odds=8.5,
    lifetime_odds=4.5,
    draws_left=700,
)
FUSED_LIFETIME = {"fused_now": 8.5, "fused_after": 12.5, "delta": 1e-5}

PASSPHRASE = "open sesame"
PHRASE = "one two three four five six seven eight nine ten eleven twelve"
SECRET = "the owner's secret"
SHELVES = (
    "health.condition", "food.diet", "food.groceries", "finance.accounts", "finance.bills",
    "hobbies.music",
)  # fmt: skip
WORDS = {
    "health": {"habits", "sleep", "exercise", "health"},
    "food": {"dinner", "meals", "breakfast", "cook"},
    "finance": {"bill", "bills", "budget", "money", "save"},
}
CHARGED = {"health": ("diabetes",), "food": ("diabetes", "debt"), "finance": ("debt",)}
COVER: dict[int, tuple[str, ...]] = {
    1: ("diabetes",), 2: ("diabetes",), 3: ("diabetes", "debt"), 4: ("debt",), 5: ("debt",), 6: ()
}  # fmt: skip
CAP = 2.0
FUSED_TEXT = FusedText(cells=1, charged=("diabetes",), reserved=64, draws=40, free=2, seconds=7.0)
LONGEST = 200
"""Characters of a text that fit a position."""
KNOWN = tuple(
    KnownModel(
        name=name,
        title="A model",
        parameters="1B",
        source="hf:o/r/f.gguf",
        licence="Gemma Terms of Use",
        terms="Using it accepts terms.",
        size=None,
        sha256=None,
        suits="any laptop, 2 GB free",
        installed=name == "toy",
    )
    for name in ("toy", "larger")
)
LIMITS = Limits(line_bytes=1024 * 1024)
WISHES: dict[str, JsonValue] = json.loads(os.environ.get("FAKE_TACTFULD", "{}"))


def main() -> int:
    arguments = sys.argv[1:]
    profile = Profile.chosen(Path(_option("--profile")) if "--profile" in arguments else None)
    if "TACTFUL_PASSPHRASE" in os.environ:
        _fail_loudly("TACTFUL_PASSPHRASE was left in the environment of a child.")
    if arguments[0] == "serve":
        return _serve(profile)
    return _one_shot(arguments[1], profile)


def _option(name: str) -> str:
    return sys.argv[sys.argv.index(name) + 1]


def _passphrase() -> str | None:
    return _secret("--passphrase-fd")


def _secret(option: str) -> str | None:
    if option not in sys.argv:
        return None
    with os.fdopen(int(_option(option)), encoding="utf-8") as pipe:
        return pipe.readline().rstrip("\n")


def _fail_loudly(sentence: str) -> NoReturn:
    sys.stderr.write(f"Traceback (most recent call last):\n{sentence}\n")
    raise SystemExit(1)


def _wished(kind: str, command: str) -> JsonValue:
    wish = WISHES.get(kind)
    return wish.get(command) if isinstance(wish, dict) else wish == command


def _seconds_to_stop() -> float:
    return float(str(WISHES.get("stop_after", 0.1)))


# ---- commands that need no daemon ---------------------------------------------------------------


def _one_shot(command: str, profile: Profile) -> int:
    def say(line: dict[str, JsonValue]) -> None:
        sys.stdout.write(json.dumps(line) + "\n")
        sys.stdout.flush()

    code = _wished("fail", command)
    if code:
        say({"error": {"code": code, "message": f"{command} was refused for a test."}})
        return 1
    if _wished("mute", command):
        _fail_loudly("It broke.")
    if command.startswith("config-"):
        real = str(Path(sys.executable).with_name("tactfuld"))
        os.execv(real, [real, *sys.argv[1:]])  # noqa: S606 - the real one
    say(
        {
            "progress": {
                "what": "fetching the model" if command == "model-install" else "keys",
                "done": 1,
                "total": 2,
            }
        }
    )
    if _wished("hang", command):
        time.sleep(600)
    answer = _answered(command, profile)
    say(answer)
    return 1 if "error" in answer else 0


def _answered(command: str, profile: Profile) -> dict[str, JsonValue]:
    if command.startswith("model-"):
        return {"data": _about_models(command).model_dump(mode="json")}
    if command.startswith("key-") or command == "recover":
        return _about_keys(command, profile)
    match command:
        case "ledger-restore":
            return _restored(profile)
        case "init-choices":
            return _choices(profile)
        case "doctor":
            return {"data": _looked_over(profile)}
        case "memory-accept":
            return _accepted(profile)
        case "memory-migrate":
            return _migrated()
        case "init":
            return _make(profile) or {"data": _made()}
    return {"data": {"model": "toy"}}


def _about_models(command: str) -> Message:
    """Of models it knows `toy`, which the settings name, and any other by the name asked for."""
    name = sys.argv[3] if len(sys.argv) > 3 and not sys.argv[3].startswith("-") else "toy"
    match command:
        case "model-list":
            return ModelList(use="toy", installed=(_model("toy"), _model("mine")), catalogue=KNOWN)
        case "model-info":
            return ModelInfo(
                model=_model(name),
                title="Toy\x1b[31m",
                architecture="llama",
                trained_context=8192,
                context=2048,
                memory=190_900_000,
                free_memory=24_000_000_000,
                loaded_before=name == "toy",
                problem=None if name == "toy" else "The file is damaged.",
            )
        case "model-use":
            return ModelUse(use=name, before="toy", path=f"/models/{name}.gguf")
        case "model-remove":
            return ModelRemoved(name=name, path=f"/models/{name}.gguf", size=98_362_432)
    return ModelObtained(model=_model(name), fetched=name != "toy")


def _model(name: str) -> InstalledModel:
    known = name == "toy"
    return InstalledModel(
        name=name,
        path=f"/models/{name}.gguf",
        size=98_362_432,
        in_use=known,
        source="pypi:toy==1" if known else None,
        sha256="ab" * 32 if known else None,
        vouched_by="tactful" if known else None,
        licence="Apache-2.0" if known else None,
        installed_at=1 if known else None,
    )


def _about_keys(command: str, profile: Profile) -> dict[str, JsonValue]:
    if command == "key-show":
        key: JsonValue = {"since": 1, "changing": False}
        shown: dict[str, JsonValue] = {
            "source": "passphrase",
            "description": "passphrase\x1b[31m",
            "since": 1,
            "recovery_since": 1,
            "keys": {"memory": key, "ledger": {"since": 1, "changing": True}, "history": key},
            "memory_seals": 30,
            "most_seals": 2**32,
        }
        return {"data": shown}
    locked_by = profile.data / "locked-by"
    if command == "recover":
        if _secret("--phrase-fd") != PHRASE:
            return {"error": {"code": "key_unavailable", "message": "That is no phrase."}}
    elif (given := _passphrase()) is None:
        return {"error": {"code": "passphrase_needed", "message": "A passphrase is needed."}}
    elif given != locked_by.read_text():
        return {"error": {"code": "key_unavailable", "message": "The passphrase is wrong."}}
    if command in {"recover", "key-change"}:
        locked_by.write_text(_secret("--new-passphrase-fd") or "")
        return {"data": {"description": "passphrase"}}
    if command == "key-recovery":
        return {"data": {"recovery_phrase": PHRASE}}
    return {"data": {"rotated": ["memory", "ledger", "history"]}}


def _restored(profile: Profile) -> dict[str, JsonValue]:
    given = _passphrase()
    if given is None:
        return {"error": {"code": "passphrase_needed", "message": "A passphrase is needed."}}
    if given != (profile.data / "locked-by").read_text():
        return {"error": {"code": "key_unavailable", "message": "The passphrase is wrong."}}
    file = sys.argv[sys.argv.index("ledger-restore") + 1]
    line: JsonValue = {"attribute": "debt", "spent": 2 / 3, "cap": CAP, "lifetime": 8 / 3}
    missing = 0 if "old" in file else 2
    notices: list[JsonValue] = [] if missing else ["A notice about the ledger."]
    return {
        "data": {
            "file": file,
            "appended": missing,
            "entries": 7,
            "epoch": 2,
            "exhausted": not missing,
            "notices": notices,
            "lines": [line],
        }
    }


def _choices(profile: Profile) -> dict[str, JsonValue]:
    if profile.policy_file.exists():
        there = "A profile is there already."
        return {"error": {"code": "already_exists", "message": there}}
    return {
        "data": {
            "starters": [
                {"name": "everyday", "about": "a policy to live with"},
                {"name": "demo", "about": "a small example"},
            ],
            "keyring": WISHES.get("keyring"),
            "model": {
                "name": "toy",
                "size": 93_000_000,
                "licence": "Apache-2.0",
                "installed": not WISHES.get("model_missing"),
            },
        }
    }


def _looked_over(profile: Profile) -> dict[str, JsonValue]:
    """Without a passphrase the keys stay closed; a folder that is not there is a problem."""
    made = profile.data.is_dir()
    keys = "ok" if made and _passphrase() is not None else "unknown"
    checks: list[JsonValue] = [
        _check("lock", "ok" if made else "problem", "Nobody holds it.", "Make a profile."),
        _check("keys", keys, "What was found about the keys.", ""),
        _check("linger", "not_applicable", "There is no systemd.", ""),
    ]
    return {"checks": checks}


def _check(name: str, state: str, detail: str, advice: str) -> JsonValue:
    return {"name": name, "state": state, "detail": detail, "advice": advice}


def _accepted(profile: Profile) -> dict[str, JsonValue]:
    given = _passphrase()
    if given is None:
        return {"error": {"code": "passphrase_needed", "message": "A passphrase is needed."}}
    if given != (profile.data / "locked-by").read_text():
        return {"error": {"code": "key_unavailable", "message": "The passphrase is wrong."}}
    return {"data": {"memories": 3}}


def _migrated() -> dict[str, JsonValue]:
    change: dict[str, JsonValue] = {
        "shelf": "food.diet",
        "positions_before": 4,
        "positions_after": 8,
        "tokens_before": 48,
        "tokens_after": 48,
        "uncovers": ["diabetes"],
    }
    committed = "--commit" in sys.argv
    return {"data": {"changes": [change], "memories": 3, "migrated": committed, "exhausts": True}}


def _make(profile: Profile) -> dict[str, JsonValue] | None:
    if profile.policy_file.exists():
        there = "A profile is there already."
        return {"error": {"code": "already_exists", "message": there}}
    by_keyring = "keyring" in WISHES and "keyring" in sys.argv
    passphrase = "the keyring's" if by_keyring else _passphrase()
    if passphrase is None:
        needed = "There is no keyring; a passphrase is needed."
        return {"error": {"code": "passphrase_needed", "message": needed}}
    make_profile(profile, _option("--starter"), passphrase)
    return None


def make_profile(profile: Profile, starter: str, passphrase: str) -> None:
    """What `one-shot init` leaves behind."""
    for folder in (profile.config, profile.data, profile.state):
        folder.mkdir(parents=True)
    profile.policy_file.write_text(f"starter: {starter}\n")
    (profile.data / "locked-by").write_text(passphrase)


def _made() -> dict[str, JsonValue]:
    off = "--sandbox" in sys.argv and _option("--sandbox") == "off"
    return {
        "sandbox": "off" if off else "required",
        "sandbox_problem": WISHES.get("sandbox_problem"),
        "recovery_phrase": None if "--no-recovery" in sys.argv else PHRASE,
    }


# ---- the daemon ---------------------------------------------------------------------------------


def _serve(profile: Profile) -> int:
    told = os.fdopen(int(_option("--ready-fd")), "w", encoding="utf-8")

    def refuse(code: str, sentence: str) -> int:
        with told:
            told.write(json.dumps({"error": {"code": code, "message": sentence}}) + "\n")
        return 1

    if _wished("mute", "serve"):
        _fail_loudly("It broke.")
    if _wished("hang", "serve"):
        time.sleep(600)
    if not profile.policy_file.exists():
        return refuse("unusable", "There is no profile here; run `tactful init`.")
    if profile.owner_socket.exists():
        return refuse("already_running", "Another daemon holds this data folder.")
    given = _passphrase()
    if given is None:
        return refuse("passphrase_needed", "A passphrase is needed.")
    if given != (profile.data / "locked-by").read_text():
        return refuse("key_unavailable", "The passphrase is wrong.")
    profile.runtime.mkdir(mode=0o700, exist_ok=True)
    profile.owner_secret_file.write_text(SECRET)

    def announce() -> None:
        with told:
            told.write('{"ready": true}\n')

    try:
        asyncio.run(FakeDaemon(profile).run(announce))
    finally:
        profile.owner_socket.unlink(missing_ok=True)
    return 0


class FakeDaemon:
    """Answers the owner's methods."""

    def __init__(self, profile: Profile) -> None:
        self._profile = profile
        self._over = asyncio.Event()
        self._loading = int(str(WISHES.get("loading", 0)))
        self._items: list[MemoryItem] = []
        remembered = WISHES.get("remembered", {})
        assert isinstance(remembered, dict)
        for shelf, text in remembered.items():
            self._remember((str(text),), shelf)
        self._spent = {"diabetes": 0, "debt": 0}
        self._past: list[dict[str, int]] = []
        self._locked = False
        self._turns = 0
        self._at_once = False
        self._inbox = list(INBOX)
        self._kept: list[HistoryTurn] = []

    async def run(self, ready: Callable[[], object]) -> None:
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, self._over.set)
        listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        listening.bind(str(self._profile.owner_socket))
        listening.listen()
        listening.setblocking(False)
        ready()
        async with asyncio.TaskGroup() as tasks:
            accepting = tasks.create_task(self._accept(listening, tasks), name="accept")
            await self._over.wait()
            accepting.cancel()
        listening.close()

    async def _accept(self, listening: socket.socket, tasks: asyncio.TaskGroup) -> None:
        while True:
            sock, _ = await asyncio.get_running_loop().sock_accept(listening)
            tasks.create_task(self._session(sock), name="session")

    async def _session(self, sock: socket.socket) -> None:
        peer = Peer(*await open_streams(sock, LIMITS), self._answer, LIMITS, name="the owner")
        async with peer.running():
            waiting = asyncio.create_task(self._over.wait())  # noqa: TID251 - raced, then cancelled
            ended = asyncio.create_task(peer.wait_ended())  # noqa: TID251 - likewise
            _, left = await asyncio.wait({waiting, ended}, return_when=asyncio.FIRST_COMPLETED)
            for task in left:
                task.cancel()

    async def _answer(self, call: Call) -> Message:
        if WISHES.get("die_on") == call.method:
            os._exit(1)
        params = {name: str(value) for name, value in call.params.items()}
        if (told := self._in_any_state(call)) is not None:
            return told
        match call.method:
            case OwnerMethod.AUTHENTICATE:
                if params["token"] != SECRET:
                    raise NotAuthenticated("Wrong.")
                return Empty()
            case OwnerMethod.LEDGER:
                return self._ledger()
            case OwnerMethod.TELL:
                return await self._tell(call, params["app"], params["text"])
            case OwnerMethod.ASK_OWNER:
                return await self._ask_owner(call, params["question"])
            case OwnerMethod.ASK_AS:
                return await self._turn(call, params["app"], params["query"])
        return (
            self._about_memory(call, params)
            or self._about_ledgers(call)
            or self._about_history(call)
            or self._about_inbox(call)
            or self._about_apps_and_files(call.method, params)
        )

    def _about_memory(self, call: Call, params: dict[str, str]) -> Message | None:
        """A text goes to the shelf whose name begins with one of its words, else to the first."""
        match call.method:
            case OwnerMethod.REMEMBER:
                parts = _parts(params["text"]) if call.params["split"] else (params["text"],)
                return self._remember(parts, params["shelf"])
            case OwnerMethod.MEMORY_PROPOSE:
                return self._propose(params["text"], call.params["shelf"])
            case OwnerMethod.MEMORY_LIST:
                return self._listed(call.params["shelf"])
            case OwnerMethod.MEMORY_SHOW:
                return self._item(int(params["position"]))
            case OwnerMethod.MEMORY_EDIT:
                return self._edit(int(params["position"]), params["text"])
            case OwnerMethod.MEMORY_MOVE:
                return self._move(int(params["position"]), params["shelf"])
            case OwnerMethod.MEMORY_FORGET:
                left = [each for each in self._items if not _names(call.params, each)]
                forgotten, self._items = len(self._items) - len(left), left
                return Forgotten(forgotten=forgotten)
            case OwnerMethod.MEMORY_SEARCH:
                found = [each for each in self._items if params["words"] in each.text]
                return MemoryFound(items=tuple(found[: int(params["limit"])]))
            case OwnerMethod.POLICY_LINT:
                return self._lint()
            case OwnerMethod.MEMORY_SUGGEST:
                return MemorySuggestions(
                    suggestions=tuple(
                        MemorySuggestion(item=each, better="food.groceries", joining=("debt",))
                        for each in self._items
                        if each.shelf == "food.diet"
                    )
                )
        return None

    def _about_history(self, call: Call) -> Message | None:
        match call.method:
            case OwnerMethod.HISTORY_LIST:
                wanted = HistoryList.model_validate(call.params)
                found = [each for each in reversed(self._kept) if _of(each, wanted)]
                return HistoryListReply(turns=tuple(map(_item, found[: wanted.limit])))
            case OwnerMethod.HISTORY_SHOW:
                for each in self._kept:
                    if each.id == call.params["id"]:
                        return each
                raise NotFound("There is no such turn.")
            case OwnerMethod.HISTORY_FORGET:
                what = HistoryForget.model_validate(call.params)
                left = [each for each in self._kept if not _forgets(what, each)]
                forgotten, self._kept = len(self._kept) - len(left), left
                return Forgotten(forgotten=forgotten)
        return None

    def _about_inbox(self, call: Call) -> Message | None:
        match call.method:
            case OwnerMethod.INBOX_LIST:
                return InboxReply(items=tuple(self._inbox))
            case OwnerMethod.INBOX_REMOVE:
                gone = InboxRemove.model_validate(call.params)
                ids = gone.ids or tuple(item.id for item in self._inbox)
                removed = tuple(item.id for item in self._inbox if item.id in ids)
                self._inbox = [item for item in self._inbox if item.id not in ids]
                return InboxRemoved(removed=removed)
            case OwnerMethod.EVENTS_TAIL:
                after = EventsTail.model_validate(call.params).after
                return EventsReply(events=tuple(each for each in EVENTS if each.number > after))
        return None

    def _about_ledgers(self, call: Call) -> Message | None:
        match call.method:
            case OwnerMethod.EPOCH_SHOW:
                shown = self._epoch()
                if WISHES.get("rival"):
                    self._open_epoch()
                return shown
            case OwnerMethod.EPOCH_NEW:
                if call.params["after"] != self._number:
                    raise AlreadyExists("That epoch is not the open one any more.")
                self._open_epoch()
                return self._epoch()
            case OwnerMethod.EPOCH_HISTORY:
                return self._history()
            case OwnerMethod.AUDIT_DISTANCE:
                positions = call.params["positions"]
                assert isinstance(positions, list)
                return self._distance({int(str(position)) for position in positions})
            case OwnerMethod.AUDIT_REPLAY:
                return Replay(entries=7, matches=not WISHES.get("mismatch"))
        return None

    @property
    def _number(self) -> int:
        return len(self._past) + 1

    def _open_epoch(self) -> None:
        self._past.append(dict(self._spent))
        self._spent = dict.fromkeys(self._spent, 0)

    def _lifetime(self, attribute: str) -> float:
        return sum(sums[attribute] for sums in (*self._past, self._spent)) * CAP / 3

    def _epoch(self) -> EpochReply:
        lines = tuple(
            EpochLine(
                attribute=attribute,
                lifetime_now=self._lifetime(attribute) + CAP - spent * CAP / 3,
                lifetime_after=self._lifetime(attribute) + CAP,
                **(FUSED_LIFETIME if WISHES.get("fused") == attribute else {}),
            )
            for attribute, spent in self._spent.items()
        )
        return EpochReply(epoch=self._number, renewal="manual", lines=lines, staged=self._staged())

    def _history(self) -> EpochHistory:
        return EpochHistory(
            epochs=tuple(
                EpochSums(epoch=number, spent={a: times * CAP / 3 for a, times in sums.items()})
                for number, sums in enumerate((*self._past, self._spent), 1)
            )
        )

    def _distance(self, positions: set[int]) -> Distance:
        """The cheapest cover, of attributes that cost the same; afterwards all that was charged."""
        for cover in (("diabetes",), ("debt",), ("diabetes", "debt")):
            if all(set(COVER[position]) & set(cover) for position in positions):
                spent = max(self._spent[attribute] for attribute in cover) * CAP / 3
                return Distance(beforehand=CAP * len(cover), cover=cover, afterwards=spent)
        return Distance(beforehand=None, cover=(), afterwards=None)

    def _about_apps_and_files(self, method: str, params: dict[str, str]) -> Message:
        if method == OwnerMethod.APPS_LIST:
            return AppsList(apps=self._status().apps)
        if method == OwnerMethod.APPS_GRANT:
            return AppToken(app=self._known(params["app"]), token="t0ken")
        if method in (OwnerMethod.APPS_REVOKE, OwnerMethod.APPS_RESTART):
            self._known(params["app"])
            return Empty()
        if method == OwnerMethod.POLICY_APPLY:
            if params["written"] != "5eed":
                raise Unusable("policy.yaml has changed since it was shown.")
            self._at_once = True
            return self._staged()
        if method == OwnerMethod.RELOAD:
            nothing: JsonValue = {
                "waiting": [],
                "settings_problem": None,
                "policy_problem": None,
                "policy_waits": None,
            }
            return Reloaded.model_validate_json(json.dumps(WISHES.get("reloaded", nothing)))
        raise UnknownMethod("There is no such method.")

    def _in_any_state(self, call: Call) -> Message | None:
        """What is answered also while it is locked; after authentication nothing else is then."""
        match call.method:
            case OwnerMethod.STATUS:
                return self._status()
            case OwnerMethod.STOP:
                asyncio.get_running_loop().call_later(_seconds_to_stop(), self._over.set)
                return Empty()
            case OwnerMethod.LOCK:
                self._locked = True
                return Empty()
            case OwnerMethod.UNLOCK:
                return self._unlock(call.params.get("passphrase"))
            case method if self._locked and method != OwnerMethod.AUTHENTICATE:
                raise Locked("It is locked.")
            case OwnerMethod.KEYS_ROTATE:
                return KeysRotated(rotated=("memory", "ledger", "history"))
        return None

    def _unlock(self, passphrase: JsonValue) -> Message:
        if passphrase is None:
            raise PassphraseNeeded("A passphrase is needed.")
        if passphrase != (self._profile.data / "locked-by").read_text():
            raise KeyUnavailable("The passphrase is wrong.")
        self._locked = False
        return Empty()

    def _staged(self) -> StagedPolicy:
        """What the wishes say waits; nothing once it was put in force at once."""
        waiting = {} if self._at_once else WISHES.get("staged", {})
        assert isinstance(waiting, dict)
        return StagedPolicy.model_validate_json(
            json.dumps(
                {
                    "written": "5eed",
                    "at_tick": [],
                    "tick_at": 1_800_000_000,
                    "at_epoch": [],
                    "other_shelves": False,
                    "at_once": self._at_once,
                    **waiting,
                }
            )
        )

    def _status(self) -> Status:
        state = "loading" if self._loading > 0 else str(WISHES.get("model", "ready"))
        self._loading -= 1
        return Status(
            locked=self._locked,
            version="0.0",
            pid=os.getpid(),
            ready=True,
            profile=str(self._profile.data.parent),
            key_source="passphrase",
            sandbox="required",
            policy="5eed",
            positions=len(SHELVES),
            model=ModelStatus(
                name="toy",
                state=state,
                progress=1.0 if state == "ready" else 0.5,
                problem="The file is damaged." if state == "failed" else None,
                gpu=GpuStatus(supported=False, offloaded=False) if state == "ready" else None,
            ),
            apps=(AppStatus(app="meals", slots=tuple(CHARGED), state="running"),),
            notices=("A notice.",),
            staged=self._staged(),
        )

    def _known(self, app: str) -> str:
        if app != "meals":
            raise NotFound(f"The policy names no app {app}.")
        return app

    def _propose(self, text: str, shelf: JsonValue) -> Proposal:
        if shelf is not None and shelf not in SHELVES:
            raise NotFound(f"There is no shelf {shelf}.")
        ranked = sorted(SHELVES, key=lambda each: each.partition(".")[2][:4] not in text)
        return Proposal(
            choices=tuple(
                ShelfChoice(
                    shelf=info.shelf,
                    positions=1 + 2 * (info.shelf == "food.diet"),
                    free=1 - info.full + 2 * (info.shelf == "food.diet"),
                    tokens=48,
                    covered_by=info.covered_by,
                    parts=_parts(text),
                    warning=_warning(text, info.shelf),
                )
                for name in ([shelf] if shelf is not None else ranked[:3])
                for info in self._shelves()
                if info.shelf == name
            )
        )

    def _remember(self, parts: tuple[str, ...], shelf: str) -> Remembered:
        if shelf not in SHELVES:
            raise NotFound(f"There is no shelf {shelf}.")
        if any(item.shelf == shelf for item in self._items):
            raise DoesNotFit(f"The shelf {shelf} is full.")
        if not parts or any(len(part) > LONGEST for part in parts):
            raise DoesNotFit("The text is longer than a position.")
        first = SHELVES.index(shelf) + 1
        positions = (first, *range(20, 19 + len(parts)))
        self._items += [
            MemoryItem(position=position, shelf=shelf, text=part, written_at=0)
            for position, part in zip(positions, parts, strict=True)
        ]
        return Remembered(positions=positions, shelf=shelf, warning=_warning(parts[0], shelf))

    def _listed(self, shelf: JsonValue) -> MemoryList:
        return MemoryList(
            items=tuple(each for each in self._items if shelf in (None, each.shelf)),
            shelves=tuple(each for each in self._shelves() if shelf in (None, each.shelf)),
        )

    def _item(self, position: int) -> MemoryItem:
        for item in self._items:
            if item.position == position:
                return item
        raise NotFound(f"There is no memory at position {position}.")

    def _edit(self, position: int, text: str) -> Remembered:
        item = self._item(position)
        if len(text) > LONGEST:
            raise DoesNotFit("The text is longer than a position.")
        self._items[self._items.index(item)] = item.model_copy(update={"text": text})
        warning = _warning(text, item.shelf)
        return Remembered(positions=(position,), shelf=item.shelf, warning=warning)

    def _lint(self) -> LintReply:
        found = ((item, _warning(item.text, item.shelf)) for item in self._items)
        return LintReply(
            findings=tuple(LintFinding(item=item, warning=said) for item, said in found if said),
            looked_for=("diabetes", "debt"),
            unknown=("mood",),
        )

    def _move(self, position: int, shelf: str) -> Moved:
        item = self._item(position)
        covered, there = COVER[position], COVER[SHELVES.index(shelf) + 1]
        if not set(covered) <= set(there):
            raise WouldUncover(f"On {shelf} it would no longer be covered by {covered[0]}.")
        place = SHELVES.index(shelf) + 1
        moved = item.model_copy(update={"position": place, "shelf": shelf})
        self._items[self._items.index(item)] = moved
        joined = tuple(sorted(set(there) - set(covered)))
        return Moved(position=place, shelf=shelf, joined=joined)

    def _shelves(self) -> tuple[ShelfInfo, ...]:
        return tuple(
            ShelfInfo(
                shelf=shelf,
                positions=(number,),
                full=sum(item.shelf == shelf for item in self._items),
                tokens=48,
                covered_by=COVER[number],
            )
            for number, shelf in enumerate(SHELVES, 1)
        )

    def _ledger(self) -> LedgerReply:
        lines = tuple(
            LedgerLine(
                attribute=attribute,
                spent=spent * CAP / 3,
                cap=CAP,
                promised=CAP,
                lifetime=self._lifetime(attribute),
                closed=spent == 3,
                exposed=WISHES.get("exposed") == attribute,
                fused=FUSED if WISHES.get("fused") == attribute else None,
            )
            for attribute, spent in self._spent.items()
        )
        return LedgerReply(epoch=self._number, readable=not WISHES.get("unreadable"), lines=lines)

    async def _tell(self, call: Call, app: str, text: str) -> TellReply:
        self._known(app)
        if "nothing" in text:
            return TellReply(turns=())
        return TellReply(turns=(await self._turn(call, app, text),))

    async def _ask_owner(self, call: Call, question: str) -> OwnersAnswer:
        if self._loading > 0:
            raise NotReady("The model is still loading.")
        if "novel" in question:
            raise InvalidParams("The question does not fit the language model's context.")
        answer = f"You asked:\x1b[31m {question} {'You told me this. ' * 20}"
        await self._stream(call, answer)
        full = len(self._items)
        read = min(full, int(str(WISHES.get("read", full))))
        return OwnersAnswer(text=answer, read=read, remembered=full)

    async def _stream(self, call: Call, answer: str) -> None:
        for start in range(0, len(answer), 7):
            await call.progress(answer[start : start + 7])
        if WISHES.get("hang_on") == call.method:
            await self._over.wait()

    async def _turn(self, call: Call, app: str, text: str) -> Turn:
        self._known(app)
        if self._loading > 0:
            raise NotReady("The model is still loading.")
        if "forbidden" in text:
            raise Denied("The policy does not grant this.")
        self._turns += 1
        words = set(text.lower().replace("?", "").replace(":", "").replace(",", "").split())
        named = call.params.get("slots")
        slots = named if isinstance(named, list) else [s for s in WORDS if words & WORDS[s]]
        selections = tuple(self._select(str(slot)) for slot in slots)
        started = TurnStarted(
            request=call.id, turn=self._turns, app=app, query=text, selections=selections
        )
        await call.notify(Notification.TURN, started)
        answer = f"An answer to that,\x1b[31m in red, {'and so on ' * 20}until here."
        await self._stream(call, answer)
        self._keep(app, text, selections, answer)
        return Turn(
            turn=self._turns,
            app=app,
            query=text,
            selections=selections,
            answer=answer,
            fused=FUSED_TEXT if call.params.get("detail") == "fused" else None,
        )

    def _keep(self, app: str, text: str, selections: tuple[Selection, ...], answer: str) -> None:
        """A question with "evening" in it belongs to that thread, one with "broken" broke off."""
        self._kept.append(
            HistoryTurn(
                id=self._turns,
                app=app,
                thread="evening" if "evening" in text else None,
                at=1767225600 + self._turns,
                query=text,
                views=tuple(
                    HistoryView(slot=each.slot, view=each.view, fallback=each.fallback)
                    for each in selections
                ),
                answer="" if "broken" in text else answer,
                complete="broken" not in text,
            )
        )

    def _select(self, slot: str) -> Selection:
        charged = CHARGED[slot]
        if any(self._spent[attribute] == 3 for attribute in charged):
            return Selection(
                slot=slot,
                view="generic",
                epsilon=0.0,
                charged=(),
                fallback=True,
                reason="the budget of this topic is used up",
            )
        for attribute in charged:
            self._spent[attribute] += 1
        view = f"{slot}_view"
        return Selection(slot=slot, view=view, epsilon=CAP / 3, charged=charged, fallback=False)


def _warning(text: str, shelf: str) -> CoverageWarning | None:
    """Metformin implies `diabetes`, and coupons may imply `debt`."""
    covered = COVER[SHELVES.index(shelf) + 1]
    likely = ("diabetes",) if "metformin" in text and "diabetes" not in covered else ()
    possible = ("debt",) if "coupons" in text and "debt" not in covered else ()
    if not likely and not possible:
        return None
    better = "health.condition" if likely else "food.groceries"
    return CoverageWarning(likely=likely, possible=possible, better=None if covered else better)


def _parts(text: str) -> tuple[str, ...]:
    """Each sentence of a long text is a part, and a long sentence cannot be split."""
    if len(text) <= LONGEST:
        return (text,)
    parts = tuple(f"{part.strip(' .')}." for part in text.split(". "))
    return () if any(len(part) > LONGEST for part in parts) else parts


def _names(forget: Mapping[str, JsonValue], item: MemoryItem) -> bool:
    positions = forget["positions"]
    if isinstance(positions, list):
        return item.position in positions
    return bool(forget["everything"]) or forget["shelf"] == item.shelf


def _of(turn: HistoryTurn, wanted: HistoryList) -> bool:
    return wanted.app in (None, turn.app) and wanted.thread in (None, turn.thread)


def _forgets(what: HistoryForget, turn: HistoryTurn) -> bool:
    if what.ids is not None:
        return turn.id in what.ids
    return what.everything or (what.app == turn.app and what.thread in (None, turn.thread))


def _item(turn: HistoryTurn) -> HistoryItem:
    shared = turn.model_dump(exclude={"answer"})
    return HistoryItem.model_validate({**shared, "beginning": turn.answer[:40]})


if __name__ == "__main__":
    sys.exit(main())
