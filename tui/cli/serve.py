"""`aisp serve`: the HTTP door for programs, on this machine, with a token."""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import sys
from pathlib import Path

import click

from aisp.store.text import clean_line
from aisp.tui.cli import common
from aisp.tui.cli.tree import MeantError, NotHereError

PORT = 8000


@click.command()
@click.option("--host", metavar="ADDRESS", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option("--port", type=click.IntRange(0, 65535), default=PORT, show_default=True, help="0 takes any free one.")
@click.option("--expose", is_flag=True, help="Needed where ADDRESS can be reached from other machines.")
@click.option("--name", "names", metavar="NAME", multiple=True, help="A name it may be called by; repeatable.")
@click.option("--quick", is_flag=True, help="Evaluate with two replicas and fewer samples unless a client says else.")
@common.device_option
@common.roots_option
@click.option(
    "--problems",
    metavar="PATH",
    multiple=True,
    type=click.Path(exists=True),
    help="Serve the definitions of this data set as well (SOL-ExecBench, FlashInfer trace). Repeatable.",
)
@common.json_option
def command(
    host: str,
    port: int,
    expose: bool,
    names: tuple[str, ...],
    quick: bool,
    device: str,
    roots: tuple[str, ...],
    problems: tuple[str, ...],
    as_json: bool,
) -> None:
    """Answer programs over HTTP: evaluate solutions, start runs, ask for results, hear events.

    Routes and shapes are those of flashinfer-bench's server, and some of our own; docs/serve.md has them. Every request
    brings the token, which is made once and printed on a terminal; elsewhere it is said where it lies. Tasks outlive
    this server and the engine.

    Exit status: 0 it was stopped; 2 an address that others reach without --expose, a data set without definitions, or
    with one that is called as a target is; 3 it cannot listen here, or its packages are missing.
    """
    _check(host, expose)
    try:
        from aisp.engine.doors.serve import problems as data_sets
        from aisp.engine.doors.serve import server  # starlette and uvicorn: an extra, 0.2 s
    except ModuleNotFoundError as error:
        raise NotHereError(f"{error.name} is missing; pip install 'aisp[serve]' brings it") from None
    folders = tuple(Path(root).absolute() for root in roots)
    try:
        found = data_sets.read([Path(path).absolute() for path in problems], folders)
    except data_sets.ProblemsError as error:
        raise MeantError(str(error), kind="broken") from None
    try:
        secret = server.token()
        listener = server.bind(host, port)
    except OSError as error:
        why = error.strerror or error
        raise NotHereError(f"cannot serve at {host}:{port}: {why}; --port 0 takes a free one") from None
    if expose:
        common.note("warning: other machines reach this server, without encryption: who hears the token may run code")
    logging.basicConfig(level=logging.WARNING, format="aisp: %(levelname)s: %(message)s")
    settings = server.Settings(folders, found, names, device, quick)
    where = f"{f'[{host}]' if ':' in host else host}:{listener.getsockname()[1]}"
    asyncio.run(server.serve(listener, secret, settings, lambda: _tell(where, secret, as_json=as_json)))


def _check(host: str, expose: bool) -> None:
    try:
        loopback = ipaddress.ip_address(host).is_loopback
    except ValueError:
        raise click.UsageError(f"{host} is no address; 127.0.0.1 or ::1 stay on this machine") from None
    if not loopback and not expose:
        raise click.UsageError(
            f"other machines could reach {host}; --expose allows that, `ssh -L {PORT}:127.0.0.1:{PORT}` is safer"
        )


def _tell(where: str, secret: str, *, as_json: bool) -> None:
    """Say where it listens and where the token lies; the token itself on a terminal alone: others may read a log."""
    from aisp.engine import paths  # makes the state directory

    file = clean_line(str(paths.token_file()))
    if as_json:
        common.say_line({"url": f"http://{where}", "token_file": file})
        return
    common.say(f"aisp serves at http://{where}; Ctrl-C stops it, tasks and runs stay")
    if not sys.stdout.isatty():
        common.say(f"the token lies in {file}; as one URL: http://aisp:TOKEN@{where}")
        return
    common.say(f"token: {secret} (in {file})")
    common.say(f"as one URL: http://aisp:{secret}@{where}")
