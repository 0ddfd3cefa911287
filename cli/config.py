"""`autoinfer config`: the settings, and where each value comes from."""

from __future__ import annotations

import typer

from cli.console.options import Json

app = typer.Typer(
    rich_markup_mode=None, add_completion=False, help="Show the settings and where each value comes from."
)


@app.command()
def show(ctx: typer.Context, as_json: Json = False) -> None:
    """Every setting with its value, where that comes from, and what it is for."""
    from cli.console.opening import settings_of
    from cli.console.output import console, print_json, table
    from cli.console.words import value_words

    settings = settings_of(ctx)
    values, origins = settings.shown(), settings.origins()
    about = {name: field.description or "" for name, field in type(settings).model_fields.items()}
    if as_json:
        rows = {
            name: {
                "value": values[name],
                "origin": origins[name].source.value,
                "place": origins[name].place,
                "about": about[name],
            }
            for name in values
        }
        print_json({"settings": rows})
        return
    lines = [(name, value_words(values[name]), str(origins[name])) for name in values]
    console().print(table(("setting", "value", "from"), lines, wide=("value", "from")))


@app.command()
def path(ctx: typer.Context, as_json: Json = False) -> None:
    """Where state lies, and which settings files are read."""
    from pathlib import Path

    from cli.console.opening import global_options, settings_of
    from cli.console.output import console, fields, print_json
    from configs.settings_sources import SETTINGS_FILE

    settings = settings_of(ctx)
    given = global_options(ctx).config
    files = [Path.cwd() / (given or SETTINGS_FILE), settings.data_dir / SETTINGS_FILE]
    found = {
        "data_dir": str(settings.data_dir),
        "database_url": str(settings.shown()["database_url"]),
        "artifacts_dir": str(settings.artifacts_dir),
        "cache_dir": str(settings.cache_dir),
        "log_dir": str(settings.log_dir),
    }
    listed = [{"path": str(file), "exists": file.is_file()} for file in dict.fromkeys(files)]
    if as_json:
        print_json({**found, "settings_files": listed})
        return
    told = [f"{each['path']} ({'read' if each['exists'] else 'not there'})" for each in listed]
    console().print(fields([*found.items(), *(("settings file", text) for text in told)]))
