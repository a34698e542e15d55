"""Settings files of a folder that the user has trusted."""

from pathlib import Path

from triptych_factory import Trust


def write_trusted(folder: Path, text: str, data: Path | None = None) -> Path:
    """Write the ``triptych.toml`` of a folder, and trust it; ``data`` is where the user's own data
    lie, by default those of the process."""
    file = folder / "triptych.toml"
    file.write_text(text, encoding="utf-8")
    environ = None if data is None else {"XDG_DATA_HOME": str(data)}
    Trust(environ).add_file(file, file.read_bytes())
    return file
