"""One module per command of `aisp`, imported when the command is used and not before; the table is in
`tui.cli.tree`."""
