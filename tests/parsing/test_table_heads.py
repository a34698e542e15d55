"""Which row of a table is its head, and what becomes of the rows above and below."""

from hypothesis import given, settings, strategies as st

from support.examples import examples
from support.rows import each_row
from triptych.parsing import ContentBuilder, CsvParser, ParsedFile, add_rows, words


def read(text: str, name: str = "a.csv") -> ParsedFile:
    parsed = CsvParser().parse(name, text.encode())
    assert parsed is not None
    return parsed


def rows_of(text: str, name: str = "a.csv") -> list[str]:
    return read(text, name).content.rstrip("\n").split("\n\n")


HEADS = {
    "years": ("country,2021,2022\nNorway,5.4,5.5\nChile,19.5,19.6\n", "country: Norway\n2021: 5.4"),
    "one year": ("state,2018\nAlabama,R+27\nAlaska,R+15\n", "state: Alabama\n2018: R+27"),
    "an index column": (",name,weight\n0,otter,9\n1,badger,12\n", "A: 0\nname: otter\nweight: 9"),
    "the index alone beside a column": (",y\n1,49\n2,-67\n3,8\n", "A: 1\ny: 49"),
    "numbered columns": (",0,1,2\na,5.5,6,7\nb,8,9,1\n", "A: a\n0: 5.5\n1: 6\n2: 7"),
    "numbers over truth values": ("id,101,102\nx,TRUE,FALSE\ny,TRUE,TRUE\n", "id: x\n101: TRUE"),
    "dates": ("place,1/22/20,1/23/20\nWien,0,3\nGraz,1,4\n", "place: Wien\n1/22/20: 0"),
    "a comma at the end": ("name,weight,\notter,9,\nbadger,12,\n", "name: otter\nweight: 9"),
    "a column without a name": ("id,,age\n7,Ann,30\n8,Bo,26\n", "id: 7\nB: Ann\nage: 30"),
    "a repeated name": (
        "item,price,price\nNut,3,4\nBolt,5,6\n",
        "item: Nut\nprice: 3\nprice (2): 4",
    ),
    "text over text": ("name,city\nAnn,Rome\nBo,Oslo\n", "name: Ann\ncity: Rome"),
    "values of several kinds": ("a,b\n1,\nx,2020-01-05\n3,2020-01-06\n", "a: 1"),
    "missing values": ("name,weight\notter,n/a\nbadger,12\nmink,NA\n", "name: otter\nweight: n/a"),
    "a first row of data that is short": ("a,b,c\n1\n2,3,4\n5,6,7\n", "a: 1"),
    "a table from column B on": (",name,weight\n,otter,9\n,badger,12\n", "name: otter\nweight: 9"),
}
DATA = {
    "numbers": "1,2\n3,4\n",
    "a name and a number": "Ann,3\nBo,29\nCy,1\n",
    "years among years": "Roosevelt,1858\nNapoleon,1769\nAusten,1775\n",
    "a text that is there again": "red,left\nblue,right\nred,right\n",
    "a form": "Name:,Ann\nCity:,Rome\nStreet:,Via Appia\n",
    "one row": "only,row\n",
    "a number where each is a number": "a,1,2,3\nb,4,5,6\nc,7,8,9\n",
}


@each_row("case", HEADS)
def test_a_head_names_its_columns(case: str) -> None:
    text, first = HEADS[case]
    assert first in rows_of(text)[0]


@each_row("case", DATA)
def test_a_table_of_data_alone_has_letters(case: str) -> None:
    first = DATA[case].split("\n")[0].split(",")
    assert rows_of(DATA[case])[0] == "\n".join(
        f"{letter}: {cell}" for letter, cell in zip("ABCD", first, strict=False)
    )


def test_titles_above_the_head_are_text_of_their_own() -> None:
    text = "Depot stock on Monday,,\nin crates,,\nShelf,Crate,Count\nNorth,figs,12\nSouth,nuts,7\n"
    assert rows_of(text) == [
        "Depot stock on Monday",
        "in crates",
        "Shelf: North\nCrate: figs\nCount: 12",
        "Shelf: South\nCrate: nuts\nCount: 7",
    ]
    places = [(place.unit, place.number) for place in read(text).locators]
    assert places == [("line", 1), ("line", 2), ("line", 4), ("line", 5)]
    parted = text.replace("crates,,\n", "crates,,\n,,\n")
    assert rows_of(parted) == rows_of(text)


def test_a_head_of_two_rows_names_columns_by_both() -> None:
    assert rows_of(",2020,,2021,\nplace,low,high,low,high\nWien,1,2,3,4\nGraz,5,6,7,8\n")[0] == (
        "place: Wien\n2020 low: 1\n2020 high: 2\n2021 low: 3\n2021 high: 4"
    )
    assert rows_of("name,height,weight\n,cm,kg\nAnn,170,60\nBo,180,70\nCy,165,55\n")[0] == (
        "name: Ann\nheight cm: 170\nweight kg: 60"
    )


def test_tables_below_each_other_have_their_own_heads() -> None:
    text = "item,price\nNut,3\nBolt,4\n\nCities\nplace,people,area\nWien,1900000,414\nGraz,9,1\n"
    assert rows_of(text)[2:4] == ["Cities", "place: Wien\npeople: 1900000\narea: 414"]


def test_a_blank_row_alone_begins_no_table() -> None:
    assert rows_of("item,price\nNut,3\nBolt,4\n\nPin,5\nNail,6\n\nTotal,18\n")[2:] == [
        "item: Pin\nprice: 5",
        "item: Nail\nprice: 6",
        "item: Total\nprice: 18",
    ]
    doubled = "item,price\n\nNut,3\n\nBolt,4\n\nPin,5\n"
    assert rows_of(doubled)[0] == "item: Nut\nprice: 3"


def test_the_rows_of_a_sheet_are_parted_by_their_numbers() -> None:
    builder = ContentBuilder("a.xlsx", 10_000)
    cells = [(1, ["item", "price"]), (2, ["Nut", "3"]), (3, ["Bolt", "4"])]
    more = [(7, ["place", "people", "area"]), (8, ["Wien", "1", "2"]), (9, ["Graz", "3", "4"])]
    assert add_rows(builder, [*cells, *more]) == []
    assert "\n\nplace: Wien\npeople: 1\narea: 2\n\n" in builder.content


def test_a_head_that_comes_again_is_no_row() -> None:
    assert rows_of("item,price\nNut,3\nitem,price\nBolt,4\n") == [
        "item: Nut\nprice: 3",
        "item: Bolt\nprice: 4",
    ]


def test_comments_and_the_separator_of_a_sheet_stand_above_the_rows() -> None:
    text = "# Source: the depot, 2020\n# no warranty\nitem,price\nNut,3\nBolt,4\n"
    assert rows_of(text)[:3] == [
        "\\# Source: the depot, 2020",
        "\\# no warranty",
        "item: Nut\nprice: 3",
    ]
    assert [place.number for place in read(text).locators] == [1, 2, 4, 5]
    assert rows_of("# time,speed\n1,2.5\n2,3.5\n")[0] == "time: 1\nspeed: 2.5"
    assert rows_of("#,name\n1,Nut\n2,Bolt\n")[0] == "#: 1\nname: Nut"
    parsed = read("sep=;\nitem;price,each\nNut;3\nBolt;4\n")
    assert parsed.content.startswith("item: Nut\nprice,each: 3")
    assert parsed.locators[0].number == 3


def test_the_names_of_columns_without_a_value_are_reported() -> None:
    (omission,) = read("item,price,sold on\nNut,3,\nBolt,4,\n").omissions
    assert (omission.words, omission.example) == (2, "sold on")
    assert read("item,price,\nNut,3,\nBolt,4,\n").omissions == ()


def test_repeated_names_are_numbered() -> None:
    (first, _) = rows_of("a,,b,a,,a\n1,2,3,4,5,6\n7,8,9,1,2,3\n")
    assert first.splitlines() == ["a: 1", "B: 2", "b: 3", "a (2): 4", "E: 5", "a (3): 6"]


CELLS = st.one_of(
    st.sampled_from(["", "name", "price", "2021", "3.5", "TRUE", "n/a", "1/2/20", "Total:"]),
    st.text("abc12 .,-", max_size=6),
)


@settings(max_examples=examples(300), deadline=None)
@given(rows=st.lists(st.lists(CELLS, max_size=5), max_size=12))
def test_no_word_of_a_table_is_lost(rows: list[list[str]]) -> None:
    builder = ContentBuilder("a.csv", 100_000)
    unused = add_rows(builder, enumerate(rows, 1), unit="line")
    kept = words(" ".join([builder.content, *unused]))
    assert set(words(" ".join(cell for row in rows for cell in row))) <= set(kept)


@settings(max_examples=examples(300), deadline=None)
@given(rows=st.lists(st.lists(CELLS, min_size=1, max_size=5), max_size=12))
def test_a_head_has_rows_below_it(rows: list[list[str]]) -> None:
    """A table that holds anything has rows: its head is not all of it."""
    builder = ContentBuilder("a.csv", 100_000)
    add_rows(builder, enumerate(rows, 1), unit="line")
    assert bool(builder.locators) == any(cell.strip() for row in rows for cell in row)
