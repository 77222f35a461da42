"""Settings are declared once: default, bounds and help on a dataclass field.

That one declaration feeds validation, JSON, the command line and the controls of the page.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any, TypeVar

from decoding.errors import BadRequest, UnknownName

Value = bool | int | float | str


@dataclass(frozen=True)
class Option:
    """What one setting accepts. Bounds are inclusive; `choices` are for strings."""

    name: str
    default: Value
    help: str
    low: float | None = None
    high: float | None = None
    choices: tuple[str, ...] = ()

    def describe(self) -> str:
        """One line for `--help` and `list`: name, default, range, meaning."""
        if self.choices:
            allowed = " | ".join(self.choices)
        elif isinstance(self.default, bool):
            allowed = "true | false"
        else:
            allowed = f"{self.low:g} to {self.high:g}"
        return f"{self.name}={self.default} ({allowed}): {self.help}"

    def parse(self, raw: object) -> Value:
        """Turns text or a JSON value into this setting's type, within its bounds; raises BadRequest."""
        value = self._convert(raw)
        if self.choices and value not in self.choices:
            raise UnknownName(self.name, str(value), self.choices)
        too_low = self.low is not None and not isinstance(value, str) and value < self.low
        too_high = self.high is not None and not isinstance(value, str) and value > self.high
        if too_low or too_high or value != value:
            raise BadRequest(f"{self.name} is {value}.", f"It must be from {self.low:g} to {self.high:g}: {self.help}")
        return value

    def _convert(self, raw: object) -> Value:
        kind = type(self.default)
        text = str(raw).strip()
        try:
            if kind is bool:
                return {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}[text.lower()]
            if kind is int:
                number = float(text)
                if number != int(number):
                    raise ValueError(text)
                return int(number)
            return kind(text)
        except (ValueError, KeyError, OverflowError):
            raise BadRequest(f"{self.name} is {text!r}, which is not a {kind.__name__}.", f"{self.help}") from None


def option(
    default: Value,
    help: str,
    *,
    low: float | None = None,
    high: float | None = None,
    choices: tuple[str, ...] = (),
) -> Any:
    """A dataclass field that carries its own bounds and help. Numbers need both bounds."""
    return field(default=default, metadata={"help": help, "low": low, "high": high, "choices": choices})


@dataclass(frozen=True)
class Settings:
    """Base of every settings class: values are checked at birth against their options."""

    def __post_init__(self) -> None:
        for name, item in options_of(type(self)).items():
            object.__setattr__(self, name, item.parse(getattr(self, name)))

    def as_dict(self) -> dict[str, Value]:
        return asdict(self)


SettingsT = TypeVar("SettingsT", bound=Settings)


def options_of(settings: type[Settings]) -> dict[str, Option]:
    """The options of a settings class by name, in the order of declaration."""
    return {
        item.name: Option(
            item.name,
            item.default,  # type: ignore[arg-type]
            item.metadata["help"],
            item.metadata["low"],
            item.metadata["high"],
            item.metadata["choices"],
        )
        for item in fields(settings)
    }


def parse_settings(settings: type[SettingsT], given: Mapping[str, object]) -> SettingsT:
    """Builds a settings object from text or JSON values; raises BadRequest on the first bad one."""
    options = options_of(settings)
    for name in given:
        if name not in options:
            if not options:
                raise BadRequest(f"There is no setting {name!r}: this strategy has no settings.", "Leave it out.")
            raise UnknownName("setting", name, options)
    return settings(**{name: options[name].parse(value) for name, value in given.items()})
