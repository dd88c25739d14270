"""The rules, one file a library; each is found by being here."""
