"""Typed messages, one module per direction, length-prefixed msgpack on pipes and Unix sockets.

`requests`  client -> engine      `events`   engine -> client
`jobs`      engine -> worker    `reports`  worker -> engine      (verifiers speak the same two)
`framing`   the bytes: a 4-byte big-endian length, then one msgpack-encoded tagged struct
"""

PROTOCOL = 13
"""Major version of requests and events; a client and an engine that differ exchange nothing but the handshake."""
