"""The routes: those of flashinfer-bench's server, in its shapes, and our own beside them."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from typing import Any

import msgspec
from msgspec import structs
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from aisp.engine.client import Connection
from aisp.engine.documents import run_json
from aisp.engine.doors import asking
from aisp.engine.doors.serve import bodies, solutions
from aisp.engine.doors.serve.admission import Admission
from aisp.engine.doors.serve.clerk import Clerk
from aisp.engine.doors.serve.definitions import Definition
from aisp.engine.doors.serve.refusals import Kind, RefusalError
from aisp.engine.doors.serve.tasks import Asked
from aisp.engine.protocol import events, requests
from aisp.store.errors import StoreError
from aisp.store.results import hardware
from aisp.store.results.catalogued import target_json
from aisp.store.results.reading import Reading
from aisp.store.text import clean_line

MOST_RUNS = 100
"""Of one page of `GET /runs`."""
PING_S = 15.0
"""Between two signs of life on `GET /events`."""
GONE_S = 1.0
"""Between two looks whether a client that waits is still there."""

Answer = Callable[[Request], Awaitable[Response]]


def document(value: object, *, status: int = 200) -> Response:
    """An answer in JSON."""
    return Response(msgspec.json.encode(value), status, media_type="application/json")


class Routes:
    """What is answered, by one clerk."""

    def __init__(self, clerk: Clerk) -> None:
        self.clerk = clerk
        self.instance = secrets.token_hex(16)
        self.started_s = time.time()

    @property
    def all(self) -> list[Route]:
        """Paths and methods. A target's id may hold slashes: what stands behind it comes first."""
        told: list[tuple[str, Answer, str]] = [
            ("/health", self.health, "GET"),
            ("/definitions", self.definitions, "GET"),
            ("/definitions/{name:path}/workloads", self.workloads, "GET"),
            ("/definitions/{name:path}", self.definition, "GET"),
            ("/workloads/{uuid}", self.workload, "GET"),
            ("/evaluate", self.evaluate, "POST"),
            ("/tasks/batch", self.batch, "POST"),
            ("/tasks/{task_id}", self.task, "GET"),
            ("/targets", self.targets, "GET"),
            ("/targets/{name:path}", self.target, "GET"),
            ("/runs", self.runs, "GET"),
            ("/runs", self.start, "POST"),
            ("/runs/{run_id}", self.run, "GET"),
            ("/events", self.events, "GET"),
        ]
        return [Route(path, answer, methods=[method]) for path, answer, method in told]

    # -- as flashinfer-bench's server has them -------------------------------------------------------------------------

    async def health(self, request: Request) -> Response:
        """Whether runs can be made, and how many wait. Never waits for an engine."""
        clerk = self.clerk
        engine, dataset = clerk.engine, await clerk.shelf.digest()
        status: events.Status | None = None
        if engine is not None:
            with contextlib.suppress(RefusalError):  # it has just gone
                status = clerk.status = await clerk.ask(Connection.status)
        workers = [] if status is None else _workers(status)
        healthy = sum(worker["healthy"] for worker in workers)
        return document(
            {
                "status": "unavailable" if not healthy else "ok" if healthy == len(workers) else "degraded",
                "instance_id": self.instance,
                "dataset_id": dataset,
                "started_at": self.started_s,
                "accepting": not clerk.ending.is_set(),
                "workers": workers,
                "healthy_workers": healthy,
                "total_workers": len(workers),
                "queue_size": 0 if status is None else sum(item.began_ns is None for item in status.queue),
                "active_tasks": await clerk.open(),
                "problem": clerk.problem if status is None else None,
            }
        )

    async def definitions(self, request: Request) -> Response:
        """Names and titles."""
        return document(await self.clerk.shelf.summaries())

    async def definition(self, request: Request) -> Response:
        """One of them, whole."""
        definition = await self.clerk.shelf.definition(request.path_params["name"])
        return document(await asyncio.to_thread(definition.document))

    async def workloads(self, request: Request) -> Response:
        """The cases that this machine times."""
        definition = await self.clerk.shelf.definition(request.path_params["name"])
        return document(await asyncio.to_thread(definition.workloads, await self.clerk.placed()))

    async def workload(self, request: Request) -> Response:
        """One case."""
        if found := await self.clerk.shelf.workload(request.path_params["uuid"]):
            return document(found)
        raise RefusalError(Kind.UNKNOWN, "no workload has this uuid", "GET /definitions/NAME/workloads lists them")

    async def evaluate(self, request: Request) -> Response:
        """A solution becomes a task."""
        asked = bodies.decode(await request.body(), bodies.Evaluate)
        clerk, solution = self.clerk, asked.solution
        if clerk.ending.is_set():
            raise RefusalError(Kind.NO_ENGINE, "the server is being stopped", "start it again")
        definition = await clerk.shelf.definition(solution.definition, status=400)
        cases = await asyncio.to_thread(_cases, definition, asked.workload_uuids, await clerk.placed())
        files = await asyncio.to_thread(definition.files_of, solution)
        task = await clerk.submit(
            Asked(
                definition.name,
                await asyncio.to_thread(definition.sources),
                cases,
                solutions.unique_name(solution),
                files,
                clerk.device,
                clerk.quick if asked.quick is None else asked.quick,
                asked.task_id,
            )
        )
        return document({"task_id": task.id, "normalized_solution_name": task.solution})

    async def task(self, request: Request) -> Response:
        """A task, at its end where that comes within `timeout` seconds."""
        timeout_s = _number(request, "timeout", 0.0, bodies.MOST_TIMEOUT_S)
        task_id = request.path_params["task_id"]
        found = await _unless_gone(request, self.clerk.task(task_id, timeout_s))
        return document(found.document)

    async def batch(self, request: Request) -> Response:
        """Several, in the order in which they were asked for."""
        asked = bodies.decode(await request.body(), bodies.Batch)
        until_s = time.monotonic() + max(0.0, asked.timeout or 0.0)

        async def all_of_them() -> list[dict[str, Any]]:
            for task_id in dict.fromkeys(asked.task_ids):  # none is waited for where one is unknown
                await self.clerk.task(task_id)
            found = {
                task_id: (await self.clerk.task(task_id, until_s - time.monotonic())).document
                for task_id in dict.fromkeys(asked.task_ids)
            }
            return [found[task_id] for task_id in asked.task_ids]

        return document(await _unless_gone(request, all_of_them()))

    # -- our own -------------------------------------------------------------------------------------------------------

    async def targets(self, request: Request) -> Response:
        """The catalogue, and what of it does not load."""
        found = await self.clerk.shelf.look()
        problems = [clean_line(str(problem), limit=1000) for problem in found.problems]
        return document({"targets": [target_json(target) for target in found.targets], "problems": problems})

    async def target(self, request: Request) -> Response:
        """One target."""
        return document(target_json(await self.clerk.shelf.find(request.path_params["name"])))

    async def runs(self, request: Request) -> Response:
        """The newest runs, a page of them."""
        limit = int(_number(request, "limit", 20, MOST_RUNS))
        target, before = request.query_params.get("target"), request.query_params.get("before")
        return document({"runs": await asyncio.to_thread(_page, limit, target, before)})

    async def start(self, request: Request) -> Response:
        """Have a target of the collections run."""
        asked = bodies.decode(await request.body(), bodies.StartRun)
        target = await self.clerk.shelf.find(asked.target)
        known = {rung.name for rung in target.rungs}
        if unknown := [rung for rung in asked.rungs if rung not in known]:
            told = f"{target.id} has no rung {clean_line(unknown[0])!r}"
            raise RefusalError(Kind.INVALID, told, f"it has {', '.join(sorted(known))}")
        options = structs.asdict(asked)
        del options["target"]
        roots = [str(root) for root in self.clerk.shelf.roots]
        wanted = requests.StartRuns(seq=0, roots=roots, targets=[target.id], **options)
        reply: events.Reply = await self.clerk.ask(lambda engine: engine.request(wanted))
        if reply.error or not reply.run_ids:
            raise RefusalError(
                Kind.INVALID,
                reply.error or "; ".join(reply.refused.values()),
                "GET /targets says what it needs, and which cases and rungs it has",
            )
        run_id = reply.run_ids[0]
        return document({"run_id": run_id, "joined": run_id in reply.joined}, status=202)

    async def run(self, request: Request) -> Response:
        """One run's record."""
        return document(await asyncio.to_thread(_run, request.path_params["run_id"]))

    async def events(self, request: Request) -> Response:
        """What happens from now on, as server-sent events."""
        kinds = [kind for kind in request.query_params.get("kinds", "").split(",") if kind]
        feed = self.clerk.feed
        one = feed.join(kinds, request.query_params.get("run", ""))

        async def told() -> AsyncIterator[bytes]:
            yield b": from now on\n\n"
            while True:
                try:
                    async with asyncio.timeout(PING_S):
                        data = await one.next()
                except TimeoutError:
                    data = b": nothing new\n\n"
                if not data:
                    return
                yield data

        return Streamed(told(), lambda: feed.leave(one))


class Streamed(StreamingResponse):
    """Server-sent events. `over` is called once nobody listens, however that comes about: a generator alone would
    hear of it when it is collected."""

    def __init__(self, content: AsyncIterator[bytes], over: Callable[[], None]) -> None:
        super().__init__(content, media_type="text/event-stream", headers={"cache-control": "no-store"})
        self._over = over

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """See StreamingResponse."""
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._over()


def make(clerk: Clerk, token: str, hosts: Collection[str] = ()) -> ASGIApp:
    """The application. The clerk works while it lives."""

    @contextlib.asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        working = asyncio.create_task(clerk.run())
        try:
            yield
        finally:
            clerk.end()
            working.cancel()
            await asyncio.gather(working, return_exceptions=True)

    app = Starlette(
        routes=Routes(clerk).all,
        lifespan=lifespan,
        exception_handlers={RefusalError: _refused, StoreError: _store, HTTPException: _http, ClientDisconnect: _gone},
    )
    return Admission(app, token, hosts)


async def _refused(_: Request, error: Exception) -> Response:
    assert isinstance(error, RefusalError)
    return Response(msgspec.json.encode(error.document), error.status, error.headers, "application/json")


async def _store(request: Request, error: Exception) -> Response:
    told = RefusalError(Kind.STORE, clean_line(str(error), limit=500), "mend that, then try again")
    return await _refused(request, told)


async def _http(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    told = f"{request.method} {clean_line(request.url.path, limit=200)}: {error.detail}"
    refusal = RefusalError(Kind.UNKNOWN, told, "docs/serve.md lists the routes", status=error.status_code)
    return await _refused(request, refusal)


async def _gone(_: Request, error: Exception) -> Response:
    return Response(status_code=499)  # nobody reads it


async def _unless_gone(request: Request, work: Any) -> Any:
    """The result of what is waited for, given up where the client has gone."""
    task = asyncio.ensure_future(work)
    try:
        while True:
            done, _ = await asyncio.wait({task}, timeout=GONE_S)
            if done:
                return task.result()
            if await request.is_disconnected():
                raise ClientDisconnect
    finally:
        task.cancel()


def _number(request: Request, name: str, usual: float, most: float) -> float:
    given = request.query_params.get(name)
    if given is None:
        return usual
    try:
        value = float(given)
    except ValueError:
        value = -1.0
    if not 0 <= value <= most:
        raise RefusalError(Kind.INVALID, f"{name} is {clean_line(given)!r}", f"give a number from 0 to {most:g}")
    return value


def _cases(definition: Definition, uuids: list[str] | None, device: str) -> dict[str, str]:
    """The uuids of the workloads that are asked for, by the names of their cases. Raises RefusalError where one is
    unknown, or there is none."""
    fix = f"GET /definitions/{definition.name}/workloads lists them"
    if uuids is None:
        chosen = definition.workloads(device)
    else:
        known: dict[str, dict[str, Any]] = {}
        for one in definition.workloads():
            known.setdefault(one["uuid"], one)
        if unknown := [uuid for uuid in uuids if uuid not in known]:
            raise RefusalError(Kind.INVALID, f"{definition.name} has no workload {clean_line(unknown[0])}", fix)
        chosen = [known[uuid] for uuid in dict.fromkeys(uuids)]
    if not chosen:
        raise RefusalError(Kind.INVALID, f"no workload of {definition.name} is asked for, or can be timed here", fix)
    return {one["case"]: one["uuid"] for one in chosen}


def _workers(status: events.Status) -> list[dict[str, Any]]:
    """Each device that runs are placed on."""
    if status.gpu_note:
        return [{"device": "cpu", "healthy": True}]
    gpus = [device for device in status.devices if device.index >= 0]
    return [{"device": f"cuda:{device.index}", "healthy": not device.note} for device in gpus]


def _page(limit: int, target: str | None, before: str | None) -> list[dict[str, Any]]:
    with asking.opened() as store:
        try:
            found = store.newest(limit, target, before, all_findings=False)
        except LookupError as error:
            raise _no_run(error) from None
        return [_shown(store.read(run)) for run in found]


def _run(run_id: str) -> dict[str, Any]:
    with asking.opened() as store:
        try:
            record = store.run(run_id)
        except LookupError as error:
            raise _no_run(error) from None
        return {**_shown(store.read(record)), "confined": hardware.confined(store.facts(record)) or None}


def _shown(run: Reading) -> dict[str, Any]:
    """A run as a document. While it goes on nobody may know what it draws."""
    if run.record.state.final:
        return run_json(run)
    return run_json(Reading(structs.replace(run.record, seed=None, manifest={})))


def _no_run(error: LookupError) -> RefusalError:
    return RefusalError(Kind.UNKNOWN, clean_line(str(error.args[0]), limit=500), "GET /runs lists the newest")
