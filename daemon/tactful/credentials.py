"""Who is at the other end of a Unix socket, as the kernel knows it.

Decides nothing about who may connect (`tactfuld.server.sockets` and `tactful.dialling` do).
"""

from __future__ import annotations

import socket
import struct
import sys

if sys.platform == "linux":

    def peer_uid(sock: socket.socket) -> int:
        """The user id of the process that made the other end, at the time it did.

        Raises:
            OSError: the kernel does not say.
        """
        ucred = struct.Struct("iII")  # pid, uid, gid (unix(7), SO_PEERCRED)
        raw = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, ucred.size)
        return int(ucred.unpack(raw)[1])

else:

    def peer_uid(sock: socket.socket) -> int:
        """The user id of the process that made the other end, at the time it did.

        Raises:
            OSError: the kernel does not say.
        """
        sol_local, local_peercred = 0, 1  # <sys/un.h>; Python has no names for them
        xucred = struct.Struct("IIh16I")  # version, uid, number of groups, groups (<sys/ucred.h>)
        version, uid = xucred.unpack(sock.getsockopt(sol_local, local_peercred, xucred.size))[:2]
        if version != 0:
            raise OSError("The kernel described the other end of the socket in an unknown way.")
        return int(uid)
