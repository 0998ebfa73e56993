"""Many candidates of one target through `aisp judge`, a part of them broken, its driver killed on the way."""
