"""YAML of others as plain data: its size, depth and count of values are bounded, and aliases are refused.

Ten lines of aliases can stand for gigabytes. PyYAML is an extra of the installation (`aisp[yaml]`) and imported when a
document is read or written: `MissingYamlError` says how to get it.
"""

from __future__ import annotations

from types import ModuleType

MAX_DEPTH = 20
MAX_VALUES = 10_000


class MissingYamlError(ImportError):
    """PyYAML is not installed."""

    reason = "YAML needs PyYAML, which is not installed"
    fix = "`pip install 'aisp[yaml]'` brings it"

    def __init__(self) -> None:
        super().__init__(f"{self.reason}; {self.fix}")


class YamlTextError(ValueError):
    """A text is no YAML, or more of it than is read.

    Attributes:
        reason: what is wrong, with the line where that is known.
        fix: what would work.
    """

    def __init__(self, reason: str, fix: str) -> None:
        super().__init__(f"{reason}; {fix}")
        self.reason = reason
        self.fix = fix


def library() -> ModuleType:
    """PyYAML. Raises MissingYamlError."""
    try:
        import yaml  # an extra of the installation, for such documents alone
    except ImportError:
        raise MissingYamlError from None
    module: ModuleType = yaml
    return module


def load(data: bytes, *, most: int) -> object:
    """The document as plain data.

    Args:
        most: bytes that it may have.

    Raises:
        MissingYamlError: PyYAML is not installed.
        YamlTextError: it is none, or too much.
    """
    yaml = library()
    if len(data) > most:
        raise YamlTextError(f"the document has {len(data):,} bytes", f"keep it within {most:,}")
    try:
        text = data.decode("utf-8-sig")
        if reason := _too_much(yaml, text):
            raise YamlTextError(reason, "write the values out, and no more of them than are needed")
        return yaml.safe_load(text)
    except YamlTextError:
        raise
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        place = f" at line {mark.line + 1}" if mark is not None else ""
        what = getattr(error, "problem", None) or str(error).partition("\n")[0] or "nested too deeply"
        fix = "each line is key: value, indented by two spaces below its table"
        raise YamlTextError(f"not YAML{place}: {what}", fix) from None


def _too_much(yaml: ModuleType, text: str) -> str:
    """What of a document is beyond its bounds, from its events, before anything is built of it; "" for nothing."""
    depth = count = 0
    for event in yaml.parse(text, Loader=yaml.SafeLoader):
        if isinstance(event, yaml.AliasEvent):
            return f"it has an alias at line {event.start_mark.line + 1}"
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        count += isinstance(event, yaml.NodeEvent)
        if depth > MAX_DEPTH:
            return f"it is nested more than {MAX_DEPTH} deep"
        if count > MAX_VALUES:
            return f"it has more than {MAX_VALUES:,} values"
    return ""
