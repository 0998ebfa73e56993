"""What clients send, as types, and its decoding. Fields that are not named here are passed over."""

from __future__ import annotations

from typing import Annotated, Any, TypeVar

import msgspec

from aisp.engine.doors.serve.refusals import Kind, RefusalError
from aisp.store.text import clean_line

MOST_NAME = 200
"""Characters of a name."""
MOST_SOURCES = 64
MOST_WORKLOADS = 256
MOST_TASKS_ASKED = 1000
MOST_TIMEOUT_S = 3600.0

Name = Annotated[str, msgspec.Meta(min_length=1, max_length=MOST_NAME)]
TaskId = Annotated[str, msgspec.Meta(pattern="^[A-Za-z0-9._-]{1,100}$")]
Body = TypeVar("Body", bound=msgspec.Struct)


class Source(msgspec.Struct, frozen=True):
    """One file of a solution."""

    path: Annotated[str, msgspec.Meta(min_length=1, max_length=240)]
    content: str


class Spec(msgspec.Struct, frozen=True, omit_defaults=True):
    """How a solution is built and called.

    Attributes:
        entry_point: "file::function".
        language, languages: what it is written in; the second is another dialect's name for it.
        destination_passing_style: outputs are passed in, allocated, behind the inputs.
        target_hardware: in the author's words.
        binding, compile_options: of what is compiled, for definitions of a data set.
    """

    entry_point: Annotated[str, msgspec.Meta(min_length=1, max_length=300)]
    language: str = ""
    languages: list[str] = []
    destination_passing_style: bool = True
    target_hardware: list[str] | str | None = None
    binding: str | None = None
    compile_options: dict[str, Any] | None = None


class Solution(msgspec.Struct, frozen=True, omit_defaults=True):
    """A candidate as flashinfer-bench's clients send it. Encoded, it is a solution's file of a data set.

    Attributes:
        definition: the name of a data set's definition; or a target's id, or its name where no other target has it.
    """

    name: Name
    definition: Name
    spec: Spec
    sources: Annotated[list[Source], msgspec.Meta(min_length=1, max_length=MOST_SOURCES)]
    author: str = ""
    description: str | None = None


class Evaluate(msgspec.Struct, frozen=True):
    """`POST /evaluate`.

    Attributes:
        workload_uuids: of which cases; all that this machine times where left out.
        task_id: by which the task is to be known; one that follows from the content where left out.
        quick: two replicas and fewer samples; as the server was started where left out.
    """

    solution: Solution
    workload_uuids: Annotated[list[str], msgspec.Meta(max_length=MOST_WORKLOADS)] | None = None
    task_id: TaskId | None = None
    quick: bool | None = None


class Batch(msgspec.Struct, frozen=True):
    """`POST /tasks/batch`."""

    task_ids: Annotated[list[TaskId], msgspec.Meta(max_length=MOST_TASKS_ASKED)]
    timeout: Annotated[float, msgspec.Meta(le=MOST_TIMEOUT_S)] | None = None


class StartRun(msgspec.Struct, frozen=True):
    """`POST /runs`; the words are those of `aisp run`."""

    target: Name
    rungs: Annotated[list[Name], msgspec.Meta(max_length=64)] = []
    device: str = "auto"
    case: str = ""
    quick: bool = False
    replicas: Annotated[int, msgspec.Meta(ge=0, le=100)] = 0
    again: bool = False


def decode(data: bytes, kind: type[Body]) -> Body:
    """A body. Raises RefusalError where it is no JSON, or not of that kind."""
    try:
        return msgspec.json.decode(data, type=kind)
    except msgspec.ValidationError as error:
        fix = f"send {{{', '.join(field.name for field in msgspec.structs.fields(kind))}}} as docs/serve.md has it"
        raise RefusalError(Kind.INVALID, clean_line(str(error), limit=500), fix) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        told = clean_line(str(error), limit=500)
        raise RefusalError(Kind.NOT_JSON, f"the body is no JSON: {told}", "send one JSON object in UTF-8") from None
