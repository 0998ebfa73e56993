"""Which tests `make check` runs."""

from __future__ import annotations

from tests.affected import affected, imported, module_of


def test_a_changed_module_affects_the_tests_that_import_it() -> None:
    found = affected(["engine/turns.py"])
    assert "tests/engine/test_turns.py" in found and "tests/store/test_writer.py" not in found


def test_a_changed_test_affects_itself_and_a_page_nothing() -> None:
    assert affected(["tests/test_affected.py", "docs/engine.md", "tests/test_that_was_deleted.py"]) == [
        "tests/test_affected.py"
    ]


def test_a_file_has_the_name_that_it_is_imported_by() -> None:
    assert module_of("store/record/__init__.py") == "aisp.store.record"
    assert module_of("tests/affected.py") == "tests.affected"
    assert module_of("README.md") == ""
    source = "import a.b\nfrom c import d\nfrom . import e\n"
    assert imported(source) == {"a.b", "c", "c.d"}
