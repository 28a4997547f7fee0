"""The daemon's side of its sockets: listening, sessions, and the methods of apps and the owner."""
