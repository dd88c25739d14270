"""The course: runs the notebooks, checks the exercises, and builds the site."""
