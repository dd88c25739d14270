"""Packages whose names are imported when they are used, and whose errors name the extra that is missing."""

import lazy_loader


def attach(package: str, extra: str, submod_attrs: dict[str, list[str]]):
    """`lazy_loader.attach`, for a package that needs one of rlrepro's extras."""
    load, list_names, names = lazy_loader.attach(package, submod_attrs=submod_attrs)

    def load_or_advise(name: str):
        try:
            return load(name)
        except ModuleNotFoundError as error:
            from rlrepro.metadata import advice  # not before: most imports succeed

            if (message := advice(f"{package}.{name}", extra, error)) is None:
                raise
            raise ModuleNotFoundError(message, name=error.name) from error

    return load_or_advise, list_names, names
