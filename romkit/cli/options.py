"""Arguments and options that commands share: context parameters by name, settings, lists of names."""

import re
from collections import deque
from collections.abc import Iterable, Sequence
from typing import Annotated

from typer import Argument, Context, Option
from typer.core import TyperCommand

import romkit
from romkit.core import checks, display
from romkit.core.errors import InputError

OF_CONTEXT = "--context."
"""Prefix of a context parameter that is called like an option of its command."""

CONTEXT = "romkit.context"
"""Key under which a command keeps the context parameters of its command line."""

Data = Annotated[
    list[str],
    Argument(
        metavar="DATA",
        help="Files of runs, or a pattern; or a system, whose training set of seed 0 it is.",
    ),
]
Model = Annotated[
    str,
    Argument(metavar="MODEL", help="A .safetensors file by `romkit fit`, or a pretrained model."),
]
Settings = Annotated[
    list[str] | None,
    Option("--set", help="Set a value, any number of times.", metavar="NAME=VALUE"),
]
Device = Annotated[
    str | None, Option(help="cpu or cuda; by default a fit takes a GPU, a run the CPU.")
]
Force = Annotated[bool, Option("--force", help="Replace the results of an earlier run.")]


class ContextCommand(TyperCommand):
    """Command that takes context parameters as options named after them: `--F 3.14,3.15`.

    The system, an argument of the same command, decides which parameters there are. So options that
    the command does not declare are set aside here, and checked by `context_values`. One that is
    called like an option of the command is `--context.dt 0.1`.
    """

    def parse_args(self, ctx: Context, args: list[str]) -> list[str]:
        declared = {}
        for parameter in self.get_params(ctx):
            for option in parameter.opts:
                declared[option] = parameter
        command_line: list[str] = []
        context: dict[str, list[str]] = {}
        tokens = deque(args)
        while tokens:
            token = tokens.popleft()
            option, equals, value = token.partition("=")
            if option in declared:
                command_line.append(token)
                # its value may begin with --, which the parser refuses in better words
                takes_next = not equals and not getattr(declared[option], "is_flag", False)
                if takes_next and tokens:
                    command_line.append(tokens.popleft())
            elif option.startswith("--"):
                if not equals:
                    value = _value_that_follows(tokens)
                name = option.removeprefix(OF_CONTEXT).removeprefix("--")
                context.setdefault(f"--{name}", []).append(value)
            else:
                command_line.append(token)
        ctx.meta[CONTEXT] = context
        return super().parse_args(ctx, command_line)


def _value_that_follows(tokens: deque[str]) -> str:
    """Return the next token, unless it is an option; empty where there is none."""
    if tokens and not tokens[0].startswith("--"):
        return tokens.popleft()
    return ""


class MissingParameter(InputError):
    """Context parameters that the command line has to name."""

    def __init__(self, missing: Sequence["romkit.data.ContextParameter"]):
        names = ", ".join(parameter.name for parameter in missing)
        verb = "is" if len(missing) == 1 else "are"
        advice = []
        for parameter in missing:
            middle = (parameter.low + parameter.high) / 2
            unit = display.append_unit(parameter.units)
            span = f"{parameter.low:g} ... {parameter.high:g}{unit}"
            advice.append(f"--{parameter.name} {middle:.3g} (range {span})")
        fix = f"add {' '.join(advice)}"
        super().__init__(names, expected="a number for each", got="none", fix=fix)
        # "expected a number, got none" says less than the range does
        self.args = (f"{names} {verb} missing: {fix}",)


def context_values(ctx: Context, names: Iterable[str]) -> dict[str, object]:
    """Return the context parameters on the command line, as the keyword arguments that Python
    takes.

    Raises:
        InputError: an option that is neither the command's nor one of the parameters `names`, or
            not a number.
    """
    from romkit.data.spelling import full_name  # with torch, which help is spared

    names = list(names)
    _check_ambiguous(ctx, names)
    # options of the command are among the suggestions for one that is misspelt
    options = [f"--{name}" for name in names]
    for parameter in ctx.command.params:
        options += [option for option in parameter.opts if option.startswith("--")]
    values: dict[str, object] = {}
    for typed, texts in ctx.meta[CONTEXT].items():
        option = f"--{full_name(typed.removeprefix('--'), names)}"
        checks.one_of("option", option, options)
        # --F 3.14 --F 3.15 is the same as --F 3.14,3.15
        numbers = [_number(option, entry) for entry in ",".join(texts).split(",")]
        values[option.removeprefix("--")] = numbers[0] if len(numbers) == 1 else numbers
    return values


def _check_ambiguous(ctx: Context, names: Sequence[str]) -> None:
    """Raise if an option has the name of a parameter, so that either may be meant."""
    for parameter in ctx.command.params:
        source = ctx.get_parameter_source(parameter.name)
        if source is None or source.name != "COMMANDLINE":
            continue
        for option in parameter.opts:
            name = option.removeprefix("--")
            if name not in names or option in ctx.meta[CONTEXT]:
                continue
            raise InputError(
                option,
                expected=f"{OF_CONTEXT}{name} for the parameter of the context",
                got=f"{option}, an option of this command",
                fix=f"add {OF_CONTEXT}{name} VALUE",
            )


def complete_context(ctx: Context, system: "romkit.systems.System") -> dict[str, object]:
    """Return values on the command line of all context parameters of a system.

    Raises:
        MissingParameter: some have none.
    """
    values = context_values(ctx, system.context_names)
    missing = [parameter for parameter in system.context if parameter.name not in values]
    if missing:
        raise MissingParameter(missing)
    return values


def _number(option: str, text: str) -> float:
    try:
        return float(text)
    except ValueError as error:
        raise InputError(
            option,
            expected="a number, or several with commas between",
            got=repr(text) if text else "none",
            fix=f"write {option} 3.14 or {option} 3.14,3.15",
        ) from error


def settings(
    pairs: Iterable[str] | None, option: str = "--set", refused: Iterable[str] = ()
) -> dict[str, object]:
    """`name=value` of an option as keyword arguments: numbers, sizes like 2,18,36, `none`, true,
    false, or text.

    Raises:
        InputError: no `=`, or a name that has an argument or option of its own (`refused`). Values,
            and other names, are checked by the function that takes them.
    """
    values = {}
    for pair in pairs or ():
        name, equals, text = pair.partition("=")
        if not equals or not name:
            raise InputError(
                option, expected="name=value", got=repr(pair), fix=f"write {option} epochs=2"
            )
        if name in refused:
            raise InputError(
                option,
                expected="a setting",
                got=repr(name),
                fix=f"give {name} as an argument or option of the command",
            )
        values[name] = _value(text)
    return values


def _value(text: str) -> object:
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    if "," in text:
        entries = text.strip("()[] ").split(",")
        return tuple(_value(entry) for entry in entries if entry)
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return None if text.lower() == "none" else text


def names(text: str | None) -> list[str] | None:
    """Return names separated by commas; those within brackets belong to a name, `u[0, 1]`."""
    if text is None:
        return None
    between = re.split(r",(?![^\[(]*[\])])", text)
    return [name.strip() for name in between if name.strip()]
