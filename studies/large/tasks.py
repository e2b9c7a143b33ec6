"""Tasks of the study, which presets.toml lists."""

from studies.runner import Numbers, Study, frozen


def tasks(preset: str) -> list[Numbers]:
    """Tasks of a preset: functions of the modules of this study, with their arguments."""
    rows = Study("large").presets[preset].items()
    return [Numbers(title, f"studies.large.{row.pop('of')}", frozen(row)) for title, row in rows]
