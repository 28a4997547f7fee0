"""The witness of memory's version, by which an older copy of memory.db is noticed (SPEC §4).

Decides where it is and which one is trusted. What is *not* here: what follows from an older copy
(`memory`), and the MAC (`tactful_core.sealing`).

The witness lies in the state folder and names the machine. It is written after a write of memory is
durable, so being killed in between leaves one that is behind, which is no sign of anything.

Invariant: a witness that is missing, damaged, of another store, key or machine is `None`, never a
number.
"""

from __future__ import annotations

import hmac
import struct
from pathlib import Path

from tactful_core.sealing import RowSealer
from tactfuld.store.mark import machine_name
from tactfuld.store.whole_file import replace_file

WITNESS_FILE = "memory.witness"

_VERSION = struct.Struct(">Q")
_SIZE = _VERSION.size + 32
_NAME = b"witness"


class WitnessFile:
    """The witness of one store on this machine; reading and writing block for a moment.

    `sealer` is the one that memory is sealed with.
    """

    def __init__(self, path: Path, store_id: bytes) -> None:
        """Nothing is read yet."""
        self._path = path
        self._store_id = store_id

    def read(self, sealer: RowSealer) -> int | None:
        """The version that memory had when it was written last; `None` where nothing says."""
        try:
            with self._path.open("rb") as file:
                content = file.read(_SIZE + 1)
        except OSError:
            return None
        if len(content) != _SIZE:
            return None
        (version,) = _VERSION.unpack_from(content)
        return version if hmac.compare_digest(content, self._content(version, sealer)) else None

    def write(self, version: int, sealer: RowSealer) -> None:
        """Replaces the witness; `OSError` if the operating system refuses."""
        replace_file(self._path, self._content(version, sealer), durably=True)

    def reseal(self, old: RowSealer, new: RowSealer) -> None:
        """Puts it under a new key; what cannot be trusted stays; `OSError` as above."""
        version = self.read(old)
        if version is not None:
            self.write(version, new)

    def _content(self, version: int, sealer: RowSealer) -> bytes:
        machine = machine_name(self._store_id).encode()
        return _VERSION.pack(version) + sealer.root_mac(version, [_NAME, machine])
