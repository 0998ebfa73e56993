"""The datasheets as a table for docs/ceilings.md, which a test holds. `python -m tests.datasheets` prints it."""

from __future__ import annotations

from collections.abc import Iterable

from aisp.store.results.datasheets import DATASHEETS, MB, PRINTED


def table() -> str:
    """All sheets, and where each is from."""
    head = ("GPU", "memory TB/s", *(f"{name} Tflop/s" for name in PRINTED), "boost MHz", "tensor boost MHz", "SMs",
            "L2 MiB", "NVLink GB/s", "PCIe GB/s", "W")  # fmt: skip
    lines = [_row(head), _row(["---"] + ["---:"] * (len(head) - 1))]
    for sheet in DATASHEETS:
        cells: list[str] = [sheet.name, _figure(sheet.memory_bytes_per_s, 1e12)]
        cells += [_figure(sheet.rates.get(name), 1e12) for name in PRINTED]
        cells += [_figure(sheet.boost_mhz), _figure(sheet.tensor_boost_mhz), _figure(sheet.sm_count)]
        cells += [_figure(sheet.l2_bytes, MB), _figure(sheet.nvlink_bytes_per_s, 1e9)]
        cells += [_figure(sheet.pcie_bytes_per_s, 1e9), _figure(sheet.power_w)]
        lines.append(_row(cells))
    lines.append("")
    for sheet in DATASHEETS:
        driver = ", ".join(f"`{name}`" for name in sheet.names)
        origin = "; ".join(
            f"[{source.title}]({source.url}), {source.year}" + (f" ({source.what})" if source.what else "")
            for source in sheet.sources
        )
        lines.append(f"- **{sheet.name}** (driver: {driver}): {origin}." + (f" {sheet.note}" if sheet.note else ""))
    return "\n".join(lines) + "\n"


def _row(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def _figure(value: float | None, unit: float = 1.0) -> str:
    return "–" if value is None else f"{value / unit:.4g}"


if __name__ == "__main__":
    print(table(), end="")
