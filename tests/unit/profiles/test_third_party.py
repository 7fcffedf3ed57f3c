"""What a package offers."""

import pytest

from meshwatchd.profiles import INTERFACE, MeshKind, flannel
from meshwatchd.profiles.third_party import MeshKind as Offered


def test_a_kind_names_the_interface_it_is_made_for():
    """Or a look for another one would be asked; the number is the only one that there has been."""
    assert (1, Offered) == (INTERFACE, MeshKind)
    assert 1 == MeshKind(interface=1, look=flannel.look).interface
    with pytest.raises(TypeError):
        MeshKind(look=flannel.look)  # type: ignore[call-arg]  # that is the point
