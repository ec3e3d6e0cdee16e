"""A trace as an `xarray.Dataset`: arrays with names for their axes."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from asyncsim.base import checks, records

if TYPE_CHECKING:
    import xarray

REMEDY = "pip install 'asyncsim[xarray]'"


def dataset(trace: Any) -> xarray.Dataset:
    """The dataset of `Trace.to_xarray`; raises `InputError` where xarray is absent."""
    try:
        import xarray
    except ImportError as error:
        raise checks.InputError("xarray", "absent", f"a package that is installed ({error})", REMEDY) from None
    axes = trace.header.get("axes", {})
    variables: dict[str, Any] = {name: (("update", "replicate"), values) for name, values in trace.metrics.items()}
    for name, values in trace.accumulated.items():
        # A metric of the same name keeps it.
        label = f"accumulated_{name}" if name in variables else name
        variables[label] = ((*_axes(name, values.ndim - 1, axes.get(name)), "replicate"), values)
    variables["parameters"] = (("replicate", "parameter"), trace.parameters)
    variables["diverged"] = (("replicate",), trace.diverged)
    coordinates = {
        "update": trace.updates,
        "replicate": range(trace.replicates),
        "realization": ("replicate", trace.realization),
        **{knob: ("replicate", values) for knob, values in trace.settings.items()},
    }
    described = {key: json.dumps(records.plain(value)) for key, value in trace.header.items()}
    return xarray.Dataset(variables, coordinates, described)


def _axes(name: str, count: int, given: list[str] | None) -> list[str]:
    """Names of the axes of an accumulated array before the last, made up where its accumulator names none."""
    if given is not None and len(given) == count:
        return list(given)
    return [f"{name}_{number}" for number in range(count)]
