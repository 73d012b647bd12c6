"""Magic values: a receiver's company that asks for a failure, for a client's own tests."""

from carriers.simulator import faults  # noqa: F401  registers the kinds
from carriers.simulator.call import Call
from carriers.simulator.fault import KINDS, Fault, make
from carriers.simulator.params import BadParams, Params
from carriers.simulator.parcel import Parcel, Refusal

PREFIX = "SIM:"
_REFUSE = "SIM:REFUSE"


class Magic:
    """Remembers which references have had their failure.

    A failure strikes the first call of a reference only, so that a test sees the recovery, too;
    a "!" at the end makes it strike each one.
    """

    def __init__(self) -> None:
        self._spent: set[str] = set()

    def faults_for(self, call: Call) -> list[Fault]:
        """Return the faults that this call's parcels ask for."""
        if call.kind != "buy":
            return []
        return [fault for parcel in call.parcels if (fault := self._fault(parcel))]

    def _fault(self, parcel: Parcel) -> Fault | None:
        text = parcel.receiver["company"].strip().upper()
        if not text.startswith(PREFIX) or text.removesuffix("!") == _REFUSE:
            return None
        if not text.endswith("!"):
            if parcel.reference in self._spent:
                return None
            self._spent.add(parcel.reference)
        try:
            return _conjure(text)
        except (KeyError, BadParams):
            return None  # `refuse_if_asked` says so, in the carrier's words


def refuse_if_asked(parcel: Parcel) -> None:
    """Raise the documented refusal where the parcel asks for it, or asks for nonsense."""
    text = parcel.receiver["company"].strip().upper()
    if not text.startswith(PREFIX):
        return
    if text.removesuffix("!") == _REFUSE:
        raise Refusal("ADDRESS_INVALID", "The address is invalid")
    try:
        _conjure(text)
    except KeyError:
        known = ", ".join(["REFUSE", *(k.upper() for k in sorted(KINDS) if KINDS[k].per_call)])
        raise Refusal("MAGIC_UNKNOWN", f"No such magic value; known: {known}") from None
    except BadParams as error:
        raise Refusal("MAGIC_UNKNOWN", f"Bad magic value: {error}") from None


def _conjure(text: str) -> Fault:
    name, _, argument = text.removeprefix(PREFIX).removesuffix("!").partition(":")
    kind = KINDS[name.lower()]
    if not kind.per_call:
        raise KeyError(name)
    if not argument:
        return make(kind.kind, Params({}))
    if kind.magic_argument is None:
        raise BadParams(f"{name} takes no argument")
    return make(kind.kind, Params({kind.magic_argument: _number(argument)}))


def _number(text: str) -> float | str:
    try:
        return float(text)
    except ValueError:
        return text  # refused by the parameter, in its own words
