"""What a profile measures on a device."""

from dataclasses import replace


def settings_for(case, profile: str, device: str):
    """`case.SETTINGS[profile]`; on a GPU with what `case.ON_CUDA` has in its place: smaller sizes than those would
    measure the card's libraries, which keep tens of megabytes for themselves."""
    settings = case.SETTINGS[profile]
    on_card = getattr(case, "ON_CUDA", {}) if str(device).startswith("cuda") else {}
    return replace(settings, **on_card.get(profile, {}))
