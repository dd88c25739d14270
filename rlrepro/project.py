"""Where this project is developed, as its metadata have it."""

import importlib.metadata


def address() -> str:
    """The address of the repository; empty where the metadata name none."""
    urls = dict(each.split(", ") for each in importlib.metadata.metadata("rlrepro").get_all("Project-URL") or ())
    return urls.get("Repository", "")
