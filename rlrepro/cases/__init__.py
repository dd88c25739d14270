"""The documented problems, one module each; a module with `CLAIMS` is found by being here."""
