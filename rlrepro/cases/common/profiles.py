"""The settings of a profile on a device."""

from dataclasses import replace


def settings_for(case, profile: str, device: str):
    """`case.SETTINGS[profile]`, on a GPU with the replacements in `case.ON_CUDA`: smaller sizes would measure the GPU
    libraries, which reserve tens of megabytes for themselves."""
    settings = case.SETTINGS[profile]
    replacements = getattr(case, "ON_CUDA", {}) if str(device).startswith("cuda") else {}
    return replace(settings, **replacements.get(profile, {}))
