"""Many candidates of one target through `aisp bench judge`, a part of them broken, its driver killed on the way."""
