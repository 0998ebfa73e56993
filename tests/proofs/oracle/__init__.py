"""What the oracle can tell, measured: `python -m tests.proofs oracle corpus|mutants|lessons|wrong|report`.

    corpus    26 operators whose truth is known: who is refused, by which strategy, at which rate
    mutants   five small slips in each right operator: which of them are noticed
    lessons   the shipped lessons: honest rungs over many cases, and how soon a wrong one is found; with --only those
              that are named, in their places of a recorded sitting of the same kind. Each rung is recorded with a hash
              of what it was asked with, so that the page names the lessons that have changed since
    report    docs/oracle_proof.md from what the others left in docs/oracle/

Without the engine, so that nothing but the oracle is measured. Every rung has a process of its own, because modules of
different targets share their names.
"""
