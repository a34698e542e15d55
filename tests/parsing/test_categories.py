"""What category a path is in."""

from support.rows import each_row
from triptych.parsing.files import CATEGORIES, DEFAULT_CATEGORY, category


@each_row(
    ("path", "expected"),
    [
        ("docs/ui/Button.md", "ui-component"),
        ("src/components/modal.md", "ui-component"),
        ("ButtonComponent.md", "ui-component"),
        ("HTTPTasks.md", "task"),
        ("brand/voice.md", "brand"),
        ("2024-product_brief.md", "product-brief"),
        ("help/reset-password.md", "help-doc"),
        ("TASKS.md", "task"),
        ("docs/adr/0001-use-sqlite.md", "architecture"),
        ("Architecture.md", "architecture"),
        ("explanation/planet.md", DEFAULT_CATEGORY),
        ("build/guide.md", DEFAULT_CATEGORY),
        ("éplan.md", DEFAULT_CATEGORY),
        ("", DEFAULT_CATEGORY),
    ],
)
def test_whole_words_of_the_path_decide(path: str, expected: str) -> None:
    assert category(path) == expected


def test_the_first_of_several_categories_holds() -> None:
    assert category("tasks/brand/ui.md") == "ui-component"
    assert category("tasks/brand.md") == "brand"


def test_every_word_leads_to_its_category() -> None:
    for name, words in CATEGORIES.items():
        assert {category(f"a/{word}/b.md") for word in words} == {name}
