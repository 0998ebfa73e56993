"""The sheet, row by row."""

import torch


def run(column: torch.Tensor, value: torch.Tensor, width: torch.Tensor) -> torch.Tensor:
    sheet = torch.zeros(len(column), len(width), dtype=torch.float64)
    for row, (place, number) in enumerate(zip(column.tolist(), value.tolist(), strict=True)):
        sheet[row, place] = number * float(width[place])
    return sheet
