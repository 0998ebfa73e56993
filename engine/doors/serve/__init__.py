"""The HTTP door, `aisp serve`: candidates are sent in, evaluated by the engine, and asked for by a task's id.

A task outlives the client that sent it, the engine and this server: what is to be done stands in the table of
candidates (store.candidates) before the answer is sent, and what came of it before anybody is told.
"""
