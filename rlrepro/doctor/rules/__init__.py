"""The rules, one file per subject. A rule is registered when its file is imported."""
