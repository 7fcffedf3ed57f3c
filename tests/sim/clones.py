"""Copies of worlds: a mesh is warmed up once, and as many stories as one likes begin from there.

A copy shares with its original what cannot change (frozen values), and nothing else.
"""

from __future__ import annotations

import io
import pickle
import random
from collections.abc import Callable
from functools import lru_cache, wraps
from typing import Generic, ParamSpec, TypeVar

import msgspec

from meshwatchd.core.routes.planner import Planner
from meshwatchd.profiles import PROFILES
from tests.sim.faults import Leg

Made = TypeVar("Made")
Asked = ParamSpec("Asked")

KEPT_WORLDS = 64
"""A frozen world takes about a megabyte."""


def made_once(make: Callable[Asked, Made]) -> Callable[Asked, Made]:
    """Decorate what makes a world: it is made once for each set of arguments, and each call returns a copy."""

    @lru_cache(maxsize=KEPT_WORLDS)
    def made(*args: Asked.args, **kwargs: Asked.kwargs) -> Frozen[Made]:
        return Frozen(make(*args, **kwargs))

    @wraps(make)
    def copy(*args: Asked.args, **kwargs: Asked.kwargs) -> Made:
        return made(*args, **kwargs).copy()  # type: ignore[arg-type]  # unhashable ones raise

    return copy


class Frozen(Generic[Made]):
    """A world as it was at one instant.

    Args:
        world: goes on as it likes; later changes of it are not seen in copies.
    """

    def __init__(self, world: Made) -> None:
        body = io.BytesIO()
        pickler = _Pickler(body)
        pickler.dump(world)
        self._body, self._shared, self._dice = body.getvalue(), pickler.shared, pickler.dice

    def copy(self, seed: int | None = None) -> Made:
        """A world that goes on from there.

        Args:
            seed: of everything random in it from there on; None goes on as the original would.
        """
        world: Made = _Unpickler(self._body, self._shared, self._dice_of(seed)).load()
        return world

    def _dice_of(self, seed: int | None) -> list[random.Random]:
        if seed is not None:
            source = random.Random(seed)
            return [random.Random(source.getrandbits(64)) for _ in self._dice]
        copies = [random.Random() for _ in self._dice]
        for dice, original in zip(copies, self._dice, strict=True):
            dice.setstate(original)
        return copies


class _Pickler(pickle.Pickler):
    """Leaves out what copies share, and dice."""

    def __init__(self, body: io.BytesIO) -> None:
        super().__init__(body, protocol=5)
        self.shared: list[object] = [PROFILES]
        self.dice: list[tuple[object, ...]] = []
        self._places: dict[int, int] = {id(PROFILES): 0}
        self._dice_places: dict[int, int] = {}

    def persistent_id(self, obj: object) -> int | None:
        """Place of what is shared, from 0 up; of dice, from -1 down; None for all that is copied."""
        if type(obj) is random.Random:
            if id(obj) not in self._dice_places:
                self._dice_places[id(obj)] = len(self.dice)
                self.dice.append(obj.getstate())
            return -1 - self._dice_places[id(obj)]
        if id(obj) not in self._places:
            if not _is_frozen(obj):
                return None
            self._places[id(obj)] = len(self.shared)
            self.shared.append(obj)
        return self._places[id(obj)]


class _Unpickler(pickle.Unpickler):
    def __init__(self, body: bytes, shared: list[object], dice: list[random.Random]) -> None:
        super().__init__(io.BytesIO(body))
        self._shared, self._dice = shared, dice

    def persistent_load(self, pid: object) -> object:
        assert isinstance(pid, int), "see persistent_id"
        return self._shared[pid] if pid >= 0 else self._dice[-1 - pid]


def _is_frozen(obj: object) -> bool:
    if isinstance(obj, Leg | Planner):
        return True
    if isinstance(obj, msgspec.Struct):
        return bool(obj.__struct_config__.frozen)
    # A dataclass keeps there what its decorator was told.
    kept = getattr(type(obj), "__dataclass_params__", None)
    return kept is not None and bool(kept.frozen)
